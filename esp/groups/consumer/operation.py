"""One operation on a consumer group: its records, which count for the next one at once and go into the log in one batch, or not at all.

The move of a group from one protocol to the other is part of such an operation: the group of the classic protocol goes, or comes, with it.
"""

from collections.abc import Callable, Iterable

from esp.groups.appends import Outcome
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import Group
from esp.groups.group_log import consumer_group_record, deleted_group_record, generation_record
from esp.groups.keyed_groups import KeyedOperation
from esp.groups.rebalances import Rebalances
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.consumer_group_records import ConsumerGroupKey, ConsumerGroupRecord, ConsumerGroupRecordType, Value


class Operation(KeyedOperation[ConsumerGroup, ConsumerGroupRecord]):
    """Collects records while it is decided.

    Args:
        state: the coordinator's state.
        rebalances: moves groups of the classic protocol through their states.
        group_id: the group that it is about; it may not be there yet.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances, group_id: str) -> None:
        super().__init__(state.consumers, group_id)
        self._state = state
        self._rebalances = rebalances
        self._replaced: Group | None = None
        self._successor: Group | None = None
        self._needs_rebalance = False
        self._encoded: dict[ConsumerGroupKey, NewRecord] = {}

    def put(self, type_: ConsumerGroupRecordType, value: Value | None, name: str = "") -> None:
        """Let a part of the group be this from now on; nothing is written if it is so already."""
        self._write(ConsumerGroupRecord(ConsumerGroupKey(type_, self._group_id, name), value))

    def put_encoded(self, record: ConsumerGroupRecord, encoded: NewRecord) -> None:
        """As :meth:`put`, for a part of which it is known what is written."""
        self._encoded[record.key] = encoded
        self._write(record)

    def replace(self, classic: Group, records: Iterable[ConsumerGroupRecord] = ()) -> None:
        """The group takes the place of one of the classic protocol, whose offsets stay.

        Args:
            classic: the classic group; members that wait for an answer are to join again.
            records: its members in this one, if it has any.
        """
        self._replaced = classic
        for record in records:
            self.put(record.key.type, record.value, record.key.name)

    def become_classic(self, successor: Group, *, needs_rebalance: bool) -> None:
        """The group goes, and this one of the classic protocol takes its place.

        Args:
            successor: the classic group, stable.
            needs_rebalance: whether its members are to join again, as they are not where it says.
        """
        self._successor = successor
        self._needs_rebalance = needs_rebalance
        for key in sorted(self.group.keys, reverse=True):
            self.put(key.type, None, key.name)

    @property
    def has_become_classic(self) -> bool:
        """True if the group moves to the classic protocol."""
        return self._successor is not None

    def finish(self, now: Now, outcome: Outcome, undone: Callable[[Now], None]) -> None:
        """Append the records, and call ``outcome`` when they are committed or failed, or it has taken too long.

        Without records ``outcome`` is called when all that was appended before is committed, as it may rest on that: at once if it is.

        Args:
            now: the time.
            outcome: called once. After a time-out it is not known what becomes of the records.
            undone: called when nothing of the operation counts any more, perhaps long after ``outcome``.
        """
        if not self._records:
            self._state.appends.after_all(outcome, now)
            return

        replaced, successor = self._replaced, self._successor
        encoded = self._encoded
        records = [encoded.get(record.key) or consumer_group_record(record) for record in self._records]
        if replaced is not None:
            records.insert(0, deleted_group_record(replaced))
            self._rebalances.suspend(replaced)
            self._state.directory.begin_removal(replaced)
        if successor is not None:
            assignments = {member.member_id: member.assignment for member in successor}
            records.append(generation_record(successor, assignments, is_over=self._needs_rebalance))

        def on_settled(error: ErrorCode | None, now: Now) -> None:
            self._settle(error, undone, now)
            if replaced is not None:
                self._end_of_replaced(replaced, error, now)
            if successor is not None and error is None:
                self._state.directory.commit(successor)
            elif successor is not None and error is not None:
                self._rebalances.kill(successor, error, now.wall_ms)

        self._state.appends.append(records, now, settle=on_settled, outcome=outcome, groups=(self._group_id,))
        if successor is not None:
            self._state.directory.add(successor)
            self._rebalances.begin(successor, now)
            if self._needs_rebalance:
                self._rebalances.prepare(successor, now)

    def _end_of_replaced(self, replaced: Group, error: ErrorCode | None, now: Now) -> None:
        self._state.directory.end_removal(replaced, is_committed=error is None)
        if error is None:
            self._rebalances.kill(replaced, ErrorCode.unknown_member_id, now.wall_ms)
        elif self._state.directory.find(self._group_id) is replaced:
            self._rebalances.resume(replaced, now)
