"""Changes of offsets, and removals of groups, on their way through the log."""

from functools import partial

from esp.groups.appends import Outcome
from esp.groups.group import Group, GroupEvent
from esp.groups.group_log import deleted_group_record, offset_record
from esp.groups.now import Now
from esp.groups.offset_store import OffsetChange
from esp.groups.shard import Shard
from esp.model.errors import ErrorCode


def append_changes(
    shard: Shard,
    changes: tuple[OffsetChange, ...],
    now: Now,
    *,
    removed: tuple[Group, ...] = (),
    outcome: Outcome | None = None,
) -> None:
    """Append these changes, then the tombstones of these empty groups, in one batch; they show once they are committed."""
    records = [offset_record(change) for change in changes]
    records += (deleted_group_record(group) for group in removed)
    pending = shard.offsets.begin(changes)
    shard.appends.append(records, now, settle=partial(_on_settled, shard, pending, changes, removed), outcome=outcome)
    for group in removed:
        for timer in group.pending_joins.values():
            timer.cancel()
        group.pending_joins.clear()
        shard.directory.begin_removal(group)


def _on_settled(
    shard: Shard,
    pending: int,
    changes: tuple[OffsetChange, ...],
    removed: tuple[Group, ...],
    error: ErrorCode | None,
    now: Now,
) -> None:
    is_committed = error is None
    shard.offsets.end(pending, is_committed=is_committed)
    if is_committed:
        for group_id in dict.fromkeys(change.group_id for change in changes if change.value is not None):
            _commit_group(shard, group_id, now)
    for group in removed:
        shard.directory.end_removal(group, is_committed=is_committed)
        if is_committed:
            group.transit(GroupEvent.REMOVED, now.wall_ms)
            if shard.offsets.committed(group.group_id):  # the batch before, with their tombstones, has failed
                _commit_group(shard, group.group_id, now)


def _commit_group(shard: Shard, group_id: str, now: Now) -> None:
    """Offsets of a group are committed, and so the group is: one of nothing but offsets comes about now."""
    group = shard.directory.find(group_id)
    if group is None:
        if shard.directory.is_being_removed(group_id):
            return
        group = Group(group_id, now.wall_ms)
        shard.directory.add(group)
    shard.directory.commit(group)
