"""Share groups of KIP-932: members send heartbeats, the coordinator assigns partitions that several of them may read at once.

The state of a group is what the records of its keys say (:class:`~esp.groups.share.group.ShareGroup`), as for consumer groups. A partition
is assigned once the share coordinator has made a state for it: :mod:`~esp.groups.share.initialisation` sees to that, by effects that ask
the driver and answers that come back as inputs.
"""
