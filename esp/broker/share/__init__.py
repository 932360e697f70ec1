"""The leader's side of share groups (KIP-932): share partitions over the logs that this node leads, and the requests of members.

:mod:`~esp.broker.share.led_partition` drives one share partition, :mod:`~esp.broker.share.leaders` finds it and has the sessions,
:mod:`~esp.broker.share.pending_fetch` is one fetch from its first look to its answer, and :mod:`~esp.broker.share.handlers` translates
ShareFetch and ShareAcknowledge for their modules in :mod:`esp.broker.apis`.
"""
