"""The effects by which share groups ask for share states (KIP-932).

The partitions of one effect may have several share coordinators, at other nodes: the driver asks each of them, again if that may help, and
reports with the token once, what it has heard and what it has not. It reports also if it gives up.
"""

from typing import NamedTuple

from esp.schemas.consumer_group_records import TopicIdPartition


class ShareStart(NamedTuple):
    """A partition and the offset at which a share group begins it."""

    partition: TopicIdPartition
    offset: int
    """NO_START_OFFSET to begin by ``share.auto.offset.reset``."""


class InitialiseShareStates(NamedTuple):
    """Make states for these partitions, in place of those that there are (InitializeShareGroupState)."""

    token: int
    group_id: str
    state_epoch: int
    """Higher than that of any request before for one of the partitions (SHARE-24): the share coordinator refuses late ones by it."""
    starts: tuple[ShareStart, ...]


class DeleteShareStates(NamedTuple):
    """Forget the states of these partitions (DeleteShareGroupState)."""

    token: int
    group_id: str
    partitions: tuple[TopicIdPartition, ...]


class ReadShareSummaries(NamedTuple):
    """Read the start offsets of these partitions (ReadShareGroupStateSummary)."""

    token: int
    group_id: str
    partitions: tuple[TopicIdPartition, ...]


ShareStateRequest = InitialiseShareStates | DeleteShareStates | ReadShareSummaries
