"""Consumer groups of the classic protocol, and committed offsets: the decisions of a group coordinator, without I/O.

One :class:`~esp.groups.coordinator.GroupCoordinator` is the coordinator of all groups of one partition of ``__consumer_offsets``. Requests
and the time go in; records to append and answers to send come out.
"""
