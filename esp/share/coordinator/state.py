"""The persisted state of one share partition, and the values of its records."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from esp.schemas.share_state_records import (
    NO_COMPLETE_COUNT,
    NO_START_OFFSET,
    ShareSnapshotValue,
    ShareUpdateValue,
    StateBatch,
)
from esp.share.state_batches import merge

_NO_LEADER_EPOCH = 0
"""The leader epoch of a state that no leader has read."""


class ShareState(NamedTuple):
    """All that counts of a share partition."""

    state_epoch: int
    """Writes of an older one are refused."""
    leader_epoch: int
    """Likewise."""
    start_offset: int
    """NO_START_OFFSET until it is set."""
    complete_count: int
    """The number of records at or above the start offset that are done with; NO_COMPLETE_COUNT if it is not known."""
    batches: tuple[StateBatch, ...]


class Change(NamedTuple):
    """The part of a write that changes a state."""

    leader_epoch: int
    start_offset: int
    complete_count: int
    batches: Sequence[StateBatch]


def begun(before: ShareState | None, state_epoch: int, start_offset: int) -> ShareState:
    """A state that begins, or begins again. Leaders that were shut out stay so."""
    return ShareState(
        state_epoch,
        _NO_LEADER_EPOCH if before is None else before.leader_epoch,
        start_offset,
        NO_COMPLETE_COUNT if start_offset == NO_START_OFFSET else 0,
        (),
    )


def changed(state: ShareState, changes: Sequence[Change]) -> ShareState:
    """The state after changes, whose order makes no difference (SHARE-21).

    So the start offset never goes back: below it nothing is kept, and what was accepted there would be delivered again. The number of
    records that are done with belongs to the start offset with which it came, and only grows there.
    """
    start_offset, complete_count = state.start_offset, state.complete_count
    for change in changes:
        if change.start_offset > start_offset:
            start_offset, complete_count = change.start_offset, change.complete_count
        elif change.start_offset in (start_offset, NO_START_OFFSET):
            complete_count = max(complete_count, change.complete_count)
    return ShareState(
        state.state_epoch,
        max(state.leader_epoch, *(change.leader_epoch for change in changes)),
        start_offset,
        complete_count,
        merge(state.batches, chain.from_iterable(change.batches for change in changes), start_offset),
    )


def snapshot_value(state: ShareState, epoch: int, created_ms: int, now_ms: int) -> ShareSnapshotValue:
    """The value of a snapshot of this epoch."""
    return ShareSnapshotValue(
        snapshot_epoch=epoch,
        state_epoch=state.state_epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        create_timestamp_ms=created_ms,
        write_timestamp_ms=now_ms,
        batches=state.batches,
        complete_count=state.complete_count,
    )


def update_value(state: ShareState, epoch: int, batches: Iterable[StateBatch]) -> ShareUpdateValue:
    """The value of the update that leads to a state.

    Args:
        state: the state.
        epoch: of the snapshot before.
        batches: those that are new in it.
    """
    return ShareUpdateValue(
        snapshot_epoch=epoch,
        leader_epoch=state.leader_epoch,
        start_offset=state.start_offset,
        batches=merge((), batches, state.start_offset),
        complete_count=state.complete_count,
    )


def replayed(snapshot: ShareSnapshotValue, updates: Sequence[ShareUpdateValue]) -> ShareState:
    """The state that a snapshot and the updates after it make up."""
    state = ShareState(
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.complete_count,
        snapshot.batches,
    )
    changes = [
        Change(update.leader_epoch, update.start_offset, update.complete_count, update.batches) for update in updates
    ]
    return changed(state, changes) if changes else state
