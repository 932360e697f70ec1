"""Consumer groups of KIP-848: members send heartbeats, and the coordinator itself assigns partitions to them.

The state of a group is what the records of its keys say (:class:`~esp.groups.consumer.group.ConsumerGroup`), be they applied while they are
written or while a log is read, so that both come to the same. The decisions, each a function of that state, are
:mod:`~esp.groups.consumer.reconciliation` and :mod:`~esp.groups.consumer.assignors`; :mod:`~esp.groups.consumer.heartbeats` joins them.
"""
