"""The outline of a log, against a plain list of the epochs of its records."""

from hypothesis import given
from hypothesis import strategies as st

from esp.raft.log_outline import LogOutline
from esp.raft.messages import EpochEnd
from esp.raft.snapshot import SnapshotId
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch


def _header(offset, epoch):
    return read_header(build_batch([NewRecord(b"")], base_offset=offset, leader_epoch=epoch))


_logs = st.lists(st.integers(1, 6), max_size=12).map(sorted)
_cuts = st.lists(st.integers(0, 12), max_size=3)


def _outline(epochs):
    outline = LogOutline()
    for offset, epoch in enumerate(epochs):
        outline.append(_header(offset, epoch))
    return outline


def _naive_end(epochs, epoch, start=0):
    """LOG-11 by looking at every record."""
    if epochs and epoch > epochs[-1]:
        return None
    upto = [each for each in epochs if each <= epoch]
    return EpochEnd(max([*upto[-1:], *([] if upto else [epoch])]), len(upto))


def test_a_snapshot_that_was_written_while_a_newer_one_was_fetched_is_told_to_nobody():
    """RAFT-32: it is removed again, and a follower that was told it would ask for it for ever."""
    outline = _outline([1] * 9)
    outline.restart_at(SnapshotId(40, 2))
    outline.advance_start(SnapshotId(5, 1), 40)
    assert outline.check_position(3, 1) == SnapshotId(40, 2)


@given(_logs, _cuts, st.integers(1, 7))
def test_ends_of_epochs_are_those_of_the_records(epochs, cuts, epoch):
    outline = _outline(epochs)
    for cut in cuts:
        if cut <= len(epochs):
            outline.truncate_to(cut)
            epochs = epochs[:cut]
    assert outline.end_offset == len(epochs)
    assert outline.last_epoch == (epochs[-1] if epochs else 0)
    if epochs:
        assert outline.find_end_of(epoch) == _naive_end(epochs, epoch)


@given(_logs, _logs, _logs)
def test_a_position_is_right_if_and_only_if_the_other_log_is_a_prefix(shared, mine, other):
    # Epochs have one leader each, so two logs part with different epochs.
    shared = [2 * epoch for epoch in shared]
    floor = shared[-1] if shared else 0
    mine = shared + [floor + 2 * epoch for epoch in mine]
    other = shared + [floor + 2 * epoch - 1 for epoch in other]
    answer = _outline(mine).check_position(len(other), other[-1] if other else 0)
    assert (answer is None) == (mine[: len(other)] == other)


@given(_logs, st.integers(1, 12), _logs)
def test_a_log_that_starts_at_a_snapshot_knows_its_epochs_as_before(epochs, start, other):
    if start > len(epochs):
        return
    outline = _outline(epochs)
    snapshot_id = SnapshotId(start, epochs[start - 1])
    outline.advance_start(snapshot_id, start)
    reopened = LogOutline(
        start_offset=start,
        start_epoch=epochs[start - 1],
        end_offset=len(epochs),
        flushed_offset=0,
        # As a log on disk has them: with the epoch of the record before its start.
        epochs=[(epoch, epochs.index(epoch)) for epoch in sorted(set(epochs)) if epoch >= epochs[start - 1]],
        snapshot_id=snapshot_id,
    )
    last = other[-1] if other else 0
    position = (len(other), last)
    assert outline.check_position(*position) == reopened.check_position(*position)
    assert outline.last_epoch == reopened.last_epoch == epochs[-1]
    if len(other) < start or last < epochs[start - 1]:
        assert outline.check_position(*position) == snapshot_id
    elif epochs[: len(other)] == other:
        assert outline.check_position(*position) is None


def test_an_epoch_whose_batches_were_lost_is_forgotten():
    outline = LogOutline(end_offset=5, flushed_offset=5, epochs=[(1, 0), (2, 5)])
    assert outline.last_epoch == 1


def test_a_log_that_restarts_at_a_snapshot_has_the_epoch_of_the_snapshot():
    outline = _outline([1, 1, 2])
    outline.restart_at(SnapshotId(40, 7))
    assert (outline.start_offset, outline.end_offset, outline.flushed_offset, outline.last_epoch) == (40, 40, 40, 7)
    assert outline.append(_header(40, 8))
    outline.truncate_to(40)
    assert outline.last_epoch == 7
