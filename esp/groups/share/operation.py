"""One operation on a share group."""

from collections.abc import Callable
from functools import partial

from esp.groups.appends import Outcome
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group_log import share_group_record
from esp.groups.keyed_groups import KeyedOperation
from esp.groups.share.group import ShareGroup
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.share_group_records import (
    ShareGroupKey,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareValue,
)


def _do_nothing(_now: Now) -> None: ...


class ShareOperation(KeyedOperation[ShareGroup, ShareGroupRecord]):
    """Collects records while it is decided.

    Args:
        state: the coordinator's state.
        group_id: the group that it is about; it may not be there yet.
    """

    def __init__(self, state: CoordinatorState, group_id: str) -> None:
        super().__init__(state.shares, group_id)
        self._state = state
        self._encoded: dict[ShareGroupKey, NewRecord] = {}

    def put(self, type_: ShareGroupRecordType, value: ShareValue | None, name: str = "") -> None:
        """Let a part of the group be this from now on; nothing is written if it is so already."""
        self._write(ShareGroupRecord(ShareGroupKey(type_, self._group_id, name), value))

    def put_encoded(self, record: ShareGroupRecord, encoded: NewRecord) -> None:
        """As :meth:`put`, for a part of which it is known what is written."""
        self._encoded[record.key] = encoded
        self._write(record)

    def finish(
        self,
        now: Now,
        outcome: Outcome,
        *,
        undone: Callable[[Now], None] = _do_nothing,
        committed: Callable[[Now], None] = _do_nothing,
    ) -> None:
        """Append the records, and call ``outcome`` when they are committed or failed, or it has taken too long.

        Without records all is called when all that was appended before is committed, as it may rest on that: at once if it is.

        Args:
            now: the time.
            outcome: called once. After a time-out it is not known what becomes of the records.
            undone: called when nothing of the operation counts any more, perhaps long after ``outcome``.
            committed: called before ``outcome`` when the records are committed, or after a time-out of that.
        """
        if not self._records:
            self._state.appends.after_all(partial(_end_without_records, outcome, undone, committed), now)
            return

        def on_settled(error: ErrorCode | None, now: Now) -> None:
            self._settle(error, undone, now)
            if error is None:
                committed(now)

        encoded = self._encoded
        records = [encoded.get(record.key) or share_group_record(record) for record in self._records]
        self._state.appends.append(records, now, settle=on_settled, outcome=outcome, groups=(self._group_id,))


def _end_without_records(
    outcome: Outcome,
    undone: Callable[[Now], None],
    committed: Callable[[Now], None],
    error: ErrorCode | None,
    now: Now,
) -> None:
    (committed if error is None else undone)(now)
    outcome(error, now)
