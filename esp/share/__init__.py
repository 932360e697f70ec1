"""Share partitions (KIP-932), pure: the records of a partition that its leader gives to the members of share groups, and takes back.

A :class:`~esp.share.partition.SharePartition` is at the leader of a partition, in memory, one for each share group that reads it. The parts
are :mod:`~esp.share.window`, :mod:`~esp.share.acquiring` and :mod:`~esp.share.acknowledgements`; :mod:`~esp.share.state_batches` has the
form in which its state is persisted, by share coordinators (:mod:`~esp.share.persister`). Sessions of members are in
:mod:`~esp.share.sessions`. No API uses these yet.
"""
