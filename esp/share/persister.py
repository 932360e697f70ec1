"""The share coordinators as their users see them: one for each share partition, wherever in the cluster it is.

:class:`Persister` is for the partition's leader, :class:`StateKeeping` for the group's coordinator. An answer that says that the
coordinator is elsewhere, or not there yet, is none to them: the question is asked again, for a bounded time. A change whose answer got
lost may so be made twice, to the same effect (SHARE-21).
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

from esp.schemas.share_state_records import ShareStateKey, StateBatch

if TYPE_CHECKING:
    from esp.share.partition import StateWrite


class PersistedRead(NamedTuple):
    """The state of a share partition."""

    state_epoch: int
    start_offset: int
    """NO_START_OFFSET if it was never set."""
    batches: tuple[StateBatch, ...]


class PersistedSummary(NamedTuple):
    """The state of a share partition without its batches."""

    state_epoch: int
    """0 for one that was never initialised."""
    leader_epoch: int
    start_offset: int
    """NO_START_OFFSET if it was never set, or there is no state."""
    complete_count: int
    """NO_COMPLETE_COUNT if it is not known."""


class Persister(Protocol):
    """Reads and writes for the leaders of partitions.

    The errors are the coordinator's: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH, INVALID_REQUEST (there is no state),
    UNKNOWN_TOPIC_OR_PARTITION. One that is worth another attempt comes when no coordinator has answered in time: it is not known then what
    has become of a write.
    """

    async def read(self, key: ShareStateKey, leader_epoch: int) -> PersistedRead:
        """Return the state; from then on no leader of an older epoch reads or writes it (SHARE-20).

        Raises:
            ApiError: see above.
        """

    async def write(self, key: ShareStateKey, state_epoch: int, leader_epoch: int, write: "StateWrite") -> None:
        """Persist a change; it is persisted when this returns.

        Raises:
            ApiError: see above.
        """


class StateKeeping(Protocol):
    """What the coordinator of a group does with the states of its share partitions. The errors are those of :class:`Persister`."""

    async def initialize(self, key: ShareStateKey, state_epoch: int, start_offset: int) -> None:
        """Begin a state, or begin it again: nothing that was persisted before counts any more, nor does a write that comes later.

        In the epoch that the state has already, nothing changes (SHARE-34).

        Args:
            key: the share partition.
            state_epoch: the group's epoch, which is higher than that of any state before.
            start_offset: NO_START_OFFSET to leave it to the leader.

        Raises:
            ApiError: FENCED_STATE_EPOCH and others.
        """

    async def delete(self, key: ShareStateKey) -> None:
        """Forget a state, if there is one.

        Raises:
            ApiError: see above.
        """

    async def read_summary(self, key: ShareStateKey) -> PersistedSummary:
        """Return what is to be described.

        Raises:
            ApiError: see above.
        """
