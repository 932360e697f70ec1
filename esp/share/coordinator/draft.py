"""The state of a share partition that a record in the making leads to, and the answers that hold once that record is committed.

The checks are Kafka's, in Kafka's order. Beyond them, what no leader and no group may say is refused instead of kept: negative epochs,
offsets that are none, states that are never persisted, batches that end before they begin.
"""

from typing import Final, NamedTuple, Protocol, assert_never

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId
from esp.records.builder import NewRecord
from esp.schemas.share_state_record_codec import (
    encode_share_snapshot_key,
    encode_share_snapshot_value,
    encode_share_update_key,
    encode_share_update_value,
)
from esp.schemas.share_state_records import (
    NO_COMPLETE_COUNT,
    NO_START_OFFSET,
    RecordState,
    ShareStateKey,
    StateBatch,
)
from esp.share.coordinator.requests import (
    NO_EPOCH,
    Delete,
    Done,
    Initialize,
    Read,
    ReadSummary,
    Refused,
    Request,
    Result,
    Write,
)
from esp.share.coordinator.state import Change, ShareState, begun, changed, snapshot_value, update_value
from esp.share.persister import PersistedRead, PersistedSummary

_NO_STATE: Final = PersistedSummary(0, 0, NO_START_OFFSET, NO_COMPLETE_COUNT)

NO_SNAPSHOT_EPOCH: Final = -1
"""The epoch before that of a share partition's first snapshot."""


class Topics(Protocol):
    """The topics of the cluster, as far as this node knows."""

    def has(self, topic_id: TopicId, partition: int) -> bool:
        """True if there is such a partition."""

    def is_gone(self, topic_id: TopicId) -> bool:
        """True if there is no such topic and never will be: it is not in the trash either."""


class Snapshot(NamedTuple):
    """A snapshot of a share partition."""

    epoch: int
    created_ms: int
    """The wall time at which the state began."""


class Written(NamedTuple):
    """A record, and the things that are true once it is committed."""

    record: NewRecord
    state: ShareState | None
    snapshot: Snapshot | None
    """The newest one."""
    update_count: int
    """The updates after it."""
    is_read: bool = False
    """True if the state takes writes (SHARE-48)."""


class Draft:
    """A share partition while requests about it are decided.

    Args:
        key: the share partition.
        state: the committed state; None if there is none.
        topics: the cluster's.
        is_read: whether a leader has read the state since it was begun.
    """

    def __init__(self, key: ShareStateKey, state: ShareState | None, topics: Topics, *, is_read: bool = True) -> None:
        self.is_read = is_read
        """False for a state that no leader has read: leaders that write to it mean the one before, which was deleted."""
        self.state = state
        """The state after the requests so far."""
        self.is_new = state is None
        """True if it has nothing to do with the committed one."""
        self._needs_snapshot = False
        self._key = key
        self._before = state
        self._topics = topics
        self._batches: list[StateBatch] = []
        """The batches of writes, for an update."""

    def answer(self, request: Request) -> Result:
        """Decide about a request; the answer may be given once the record is committed."""
        try:
            return self._answer(request)
        except ApiError as error:
            return Refused(error.code, error.message)

    def forget_if_gone(self) -> None:
        """If the topic was deleted, the state is."""
        if self._topics.is_gone(self._key.topic_id):
            self._forget()

    def take_snapshot(self) -> None:
        """Have the state written as a whole, also if it is what it was."""
        self._needs_snapshot = self.state is not None

    def write(self, snapshot: Snapshot | None, update_count: int, updates_max: int, now_ms: int) -> Written | None:
        """Make the record that leads to the state; None if that is committed already.

        Args:
            snapshot: the newest committed one.
            update_count: the updates after it.
            updates_max: the number of updates after which a snapshot follows.
            now_ms: the wall time.
        """
        state = self.state
        if state == self._before and not self._needs_snapshot:
            return None
        if state is None:
            return Written(NewRecord(None, encode_share_snapshot_key(self._key)), None, None, 0)
        if snapshot is None or self.is_new:
            snapshot = Snapshot(NO_SNAPSHOT_EPOCH if snapshot is None else snapshot.epoch, now_ms)
            is_whole = True
        else:
            is_whole = self._needs_snapshot or update_count >= updates_max
        if not is_whole:
            update = update_value(state, snapshot.epoch, self._batches)
            record = NewRecord(encode_share_update_value(update), encode_share_update_key(self._key))
            return Written(record, state, snapshot, update_count + 1, self.is_read)
        snapshot = snapshot._replace(epoch=snapshot.epoch + 1)
        whole = snapshot_value(state, snapshot.epoch, snapshot.created_ms, now_ms)
        return Written(
            NewRecord(encode_share_snapshot_value(whole), encode_share_snapshot_key(self._key)),
            state,
            snapshot,
            0,
            self.is_read,
        )

    def _answer(self, request: Request) -> Result:
        if self._key.partition < 0:
            raise ApiError(ErrorCode.invalid_request, "The partition id cannot be a negative number.")
        if isinstance(request, Write):
            return self._write(request)
        if isinstance(request, Read):
            return self._read(request)
        if isinstance(request, Initialize):
            return self._initialize(request)
        if isinstance(request, Delete):
            return self._delete()
        if isinstance(request, ReadSummary):
            return self._read_summary()
        assert_never(request)

    def _initialize(self, request: Initialize) -> Done:
        if self.state is not None and request.state_epoch < self.state.state_epoch:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._require_topic()
        if request.state_epoch < 0 or request.start_offset < NO_START_OFFSET:
            raise ApiError(
                ErrorCode.invalid_request,
                f"No state begins with state epoch {request.state_epoch} and start offset {request.start_offset}.",
            )
        if self.state is not None and self.state.state_epoch == request.state_epoch:
            return Done()  # one that was sent again and came late: what was written meanwhile stays (SHARE-34)
        self.is_read = self.is_read and self.state is not None
        self.state = begun(self.state, request.state_epoch, request.start_offset)
        self.is_new = True
        self._needs_snapshot = True
        return Done()

    def _read(self, request: Read) -> PersistedRead:
        state = self._require_state("Read")
        if NO_EPOCH < request.leader_epoch < state.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        self._require_topic()
        self.is_read = self.is_read or request.leader_epoch > NO_EPOCH
        if request.leader_epoch > state.leader_epoch:
            self.state = state = state._replace(leader_epoch=request.leader_epoch)
        return PersistedRead(state.state_epoch, state.start_offset, state.batches)

    def _write(self, request: Write) -> Done:
        state = self._require_state("Write")
        if request.leader_epoch < state.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        if request.state_epoch != state.state_epoch or not self.is_read:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._require_topic()
        _require_valid(request)
        change = Change(request.leader_epoch, request.start_offset, request.complete_count, request.batches)
        self.state = changed(state, (change,))
        self._batches += request.batches
        return Done()

    def _delete(self) -> Done:
        if self.state is None:
            self._require_topic()
        self._forget()
        return Done()

    def _read_summary(self) -> PersistedSummary:
        self._require_topic()
        state = self.state
        if state is None:
            return _NO_STATE
        return PersistedSummary(state.state_epoch, state.leader_epoch, state.start_offset, state.complete_count)

    def _forget(self) -> None:
        self.state = None
        self.is_new = True
        self._needs_snapshot = False

    def _require_state(self, operation: str) -> ShareState:
        if self.state is None:
            raise ApiError(
                ErrorCode.invalid_request,
                f"{operation} operation on uninitialized share partition not allowed.",
            )
        return self.state

    def _require_topic(self) -> None:
        if not self._topics.has(self._key.topic_id, self._key.partition):
            raise ApiError(ErrorCode.unknown_topic_or_partition)


def _require_valid(request: Write) -> None:
    for start_offset, end_offset, state, delivery_count in request.batches:
        if not 0 <= start_offset < end_offset or state is RecordState.ACQUIRED or delivery_count < 0:
            raise ApiError(
                ErrorCode.invalid_request,
                f"Offsets {start_offset}-{end_offset - 1} in state {int(state)}, delivered {delivery_count} times, are not to be kept.",
            )
    if request.start_offset < NO_START_OFFSET or request.complete_count < NO_COMPLETE_COUNT:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Start offset {request.start_offset} with {request.complete_count} records done with is not to be kept.",
        )
