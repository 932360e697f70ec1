"""One operation on a consumer group: its records, which count for the next one at once and go into the log in one batch, or not at all."""

from esp.groups.appends import Outcome
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import Group, GroupEvent
from esp.groups.group_log import consumer_group_record, deleted_group_record
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.consumer_group_records import ConsumerGroupKey, ConsumerGroupRecord, ConsumerGroupRecordType, Value


class Operation:
    """Collects records while it is decided.

    Args:
        state: the coordinator's state.
        group_id: the group that it is about; it may not be there yet.
    """

    def __init__(self, state: CoordinatorState, group_id: str) -> None:
        self._state = state
        self._groups = state.consumers
        self._group_id = group_id
        self._records: list[ConsumerGroupRecord] = []
        self._inverses: list[ConsumerGroupRecord] = []
        self._replaced: Group | None = None

    @property
    def group(self) -> ConsumerGroup:
        """The group with all records so far; one without any if it is not there."""
        found = self._groups.find(self._group_id)
        return ConsumerGroup(self._group_id) if found is None else found

    def put(self, type_: ConsumerGroupRecordType, value: Value | None, name: str = "") -> None:
        """Let a part of the group be this from now on; nothing is written if it is so already."""
        record = ConsumerGroupRecord(ConsumerGroupKey(type_, self._group_id, name), value)
        inverse = self._groups.apply(record)
        if inverse.value != value:
            self._records.append(record)
            self._inverses.append(inverse)

    def replace(self, classic: Group) -> None:
        """An empty group of the classic protocol, or one of nothing but offsets, gives way; the offsets stay."""
        self._replaced = classic

    def undo(self) -> None:
        """It is refused: nothing of it counts."""
        self._groups.undo(self._inverses)
        self._records.clear()
        self._inverses.clear()

    def finish(self, now: Now, outcome: Outcome) -> None:
        """Append the records, and call ``outcome`` when they are committed or failed.

        Without records ``outcome`` is called when all that was appended before is committed, as it may rest on that: at once if it is.
        """
        if not self._records:
            self._state.appends.after_all(outcome, now)
            return

        replaced = self._replaced
        if replaced is not None:
            self._state.directory.begin_removal(replaced)

        def on_settled(error: ErrorCode | None, now: Now) -> None:
            is_committed = error is None
            if is_committed:
                self._groups.commit(self._records)
            else:
                self._groups.undo(self._inverses)
            if replaced is not None:
                self._state.directory.end_removal(replaced, is_committed=is_committed)
                if is_committed:
                    replaced.transit(GroupEvent.REMOVED, now.wall_ms)

        records = [consumer_group_record(record) for record in self._records]
        if replaced is not None and replaced.protocol_type is not None:
            records.insert(0, deleted_group_record(replaced))
        self._state.appends.append(records, now, settle=on_settled, outcome=outcome)
