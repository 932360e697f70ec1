"""The records in ``__share_group_state`` (KIP-932): which records of a partition a share group has done with, as far as that is persisted.

A snapshot has all of one share partition; an update has the changes since the snapshot of its epoch, and the updates before it. The bytes
are in :mod:`esp.schemas.share_state_record_codec`. Ranges are half open here, and closed in the bytes.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from esp.model.ids import TopicId

NO_START_OFFSET: Final = -1
"""The start offset of a share partition that was never read: its leader finds it by the group's ``share.auto.offset.reset``."""

NO_COMPLETE_COUNT: Final = -1
"""The number of records done with is not known: of releases without that field (before Kafka 4.3), and of a partition without a start."""


class RecordState(IntEnum):
    """The state of a record in a share partition, by Kafka's numbers."""

    AVAILABLE = 0
    """A member may acquire it."""
    ACQUIRED = 1
    """A member has it, until it acknowledges it or its lock ends. Never persisted."""
    ACKNOWLEDGED = 2
    """It was accepted, and is never delivered again."""
    ARCHIVING = 3
    """It was rejected or is out of attempts, and the dead letter about it is still to be written; no member gets it any more."""
    ARCHIVED = 4
    """It was rejected, is out of attempts, or is not there: it is never delivered again."""

    @property
    def is_terminal(self) -> bool:
        """True if it never changes any more."""
        return self is RecordState.ACKNOWLEDGED or self is RecordState.ARCHIVED


class StateBatch(NamedTuple):
    """Offsets that stand in one state."""

    start_offset: int
    end_offset: int
    state: RecordState
    delivery_count: int
    """The number of times they were acquired."""


class ShareStateKey(NamedTuple):
    """A share partition: a partition of a topic as one share group sees it."""

    group_id: str
    topic_id: TopicId
    partition: int


class ShareSnapshotValue(NamedTuple):
    """All that is persisted of a share partition."""

    snapshot_epoch: int
    """One more than that of the snapshot before."""
    state_epoch: int
    """The group's epoch at which the share partition was initialised or altered."""
    leader_epoch: int
    """The leader epoch of the partition, as its leader told it last."""
    start_offset: int
    create_timestamp_ms: int
    write_timestamp_ms: int
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COMPLETE_COUNT
    """The number of records at or above the start offset that are done with."""


class ShareUpdateValue(NamedTuple):
    """A change of a share partition since its newest snapshot."""

    snapshot_epoch: int
    """The epoch of the snapshot: an update of another one does not count."""
    leader_epoch: int
    start_offset: int
    """NO_START_OFFSET if it stays."""
    batches: tuple[StateBatch, ...]
    complete_count: int = NO_COMPLETE_COUNT


class ShareSnapshotRecord(NamedTuple):
    """A share partition is this from now on; without a value it is gone."""

    key: ShareStateKey
    value: ShareSnapshotValue | None


class ShareUpdateRecord(NamedTuple):
    """A share partition changes."""

    key: ShareStateKey
    value: ShareUpdateValue
