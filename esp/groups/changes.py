"""Changes of offsets, and removals of groups, on their way through the log."""

from esp.groups.appends import Outcome
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.effects import Transaction
from esp.groups.group import Group, GroupEvent
from esp.groups.group_log import consumer_group_record, deleted_group_record, offset_record, share_group_record
from esp.groups.share.group import ShareGroup
from esp.groups.transactional_offsets import OffsetChange
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.consumer_group_records import ConsumerGroupRecord
from esp.schemas.share_group_records import ShareGroupRecord


def append_changes(
    state: CoordinatorState,
    changes: tuple[OffsetChange, ...],
    now: Now,
    *,
    removed: tuple[Group, ...] = (),
    removed_consumers: tuple[ConsumerGroup, ...] = (),
    removed_shares: tuple[ShareGroup, ...] = (),
    outcome: Outcome | None = None,
) -> None:
    """Append these changes, then the tombstones of these empty groups, in one batch; they show once they are committed."""
    tombstones = tuple(
        ConsumerGroupRecord(key, None) for group in removed_consumers for key in sorted(group.keys, reverse=True)
    )
    share_tombstones = tuple(
        ShareGroupRecord(key, None) for group in removed_shares for key in sorted(group.keys, reverse=True)
    )
    records = [offset_record(change) for change in changes]
    records += (deleted_group_record(group) for group in removed)
    records += map(consumer_group_record, tombstones)
    records += map(share_group_record, share_tombstones)
    pending = state.offsets.begin(changes)
    inverses = [state.consumers.apply(record) for record in tombstones]
    share_inverses = [state.shares.apply(record) for record in share_tombstones]

    def settle(error: ErrorCode | None, now: Now) -> None:
        if error is None:
            state.consumers.commit(tombstones)
            state.shares.commit(share_tombstones)
        else:
            state.consumers.undo(inverses)
            state.shares.undo(share_inverses)
        _on_settled(state, pending, changes, removed, error, now)

    groups = [group.group_id for group in removed_consumers] + [group.group_id for group in removed_shares]
    state.appends.append(records, now, settle=settle, outcome=outcome, groups=groups)
    for group in removed:
        for timer in group.pending_joins.values():
            timer.cancel()
        group.pending_joins.clear()
        state.directory.begin_removal(group)


def append_transactional(
    state: CoordinatorState,
    transaction: Transaction,
    changes: tuple[OffsetChange, ...],
    now: Now,
    *,
    outcome: Outcome,
) -> None:
    """Append these changes as records of a transaction; they show once its commit marker is committed (TXN-10)."""
    pending = state.offsets.begin_transactional(transaction.producer_id, changes)

    def settle(error: ErrorCode | None, _now: Now) -> None:
        if error is not None:
            state.offsets.fail_transactional(transaction.producer_id, pending)

    records = [offset_record(change) for change in changes]
    state.appends.append(records, now, settle=settle, outcome=outcome, transaction=transaction)


def end_transaction(state: CoordinatorState, producer_id: int, pending: int, now: Now, *, is_commit: bool) -> None:
    """A marker of this producer is committed; ``pending`` is the key of :meth:`OffsetStore.begin_end`."""
    for group_id in state.offsets.end_transaction(producer_id, pending, is_commit=is_commit):
        if state.offsets.committed(group_id):
            _commit_group(state, group_id, now)


def _on_settled(
    state: CoordinatorState,
    pending: int,
    changes: tuple[OffsetChange, ...],
    removed: tuple[Group, ...],
    error: ErrorCode | None,
    now: Now,
) -> None:
    is_committed = error is None
    state.offsets.end(pending, is_committed=is_committed)
    if is_committed:
        for group_id in dict.fromkeys(change.group_id for change in changes if change.value is not None):
            _commit_group(state, group_id, now)
    for group in removed:
        state.directory.end_removal(group, is_committed=is_committed)
        if is_committed:
            group.transit(GroupEvent.REMOVED, now.wall_ms)
            if state.offsets.committed(group.group_id):  # the batch before, with their tombstones, has failed
                _commit_group(state, group.group_id, now)


def _commit_group(state: CoordinatorState, group_id: str, now: Now) -> None:
    """Offsets of a group are committed, and so the group is: one of nothing but offsets comes about now."""
    if state.consumers.find(group_id) is not None or state.shares.find(group_id) is not None:
        return
    group = state.directory.find(group_id)
    if group is None:
        if state.directory.is_being_removed(group_id):
            return
        group = Group(group_id, now.wall_ms)
        state.directory.add(group)
    state.directory.commit(group)
