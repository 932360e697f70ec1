"""LOG-7..11, against a list of the epoch of every offset."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.storage.leader_epochs import UNDEFINED, LeaderEpochs

histories = st.lists(st.tuples(st.integers(1, 3), st.integers(0, 4)), max_size=12)
"""Epoch steps with the number of records written under each."""


def build(history: list[tuple[int, int]]) -> tuple[LeaderEpochs, list[int]]:
    epochs = LeaderEpochs()
    written: list[int] = []
    epoch = -1
    for step, count in history:
        epoch += step
        epochs.assign(epoch, len(written))
        written += [epoch] * count
    return epochs, written


@given(histories)
def test_every_offset_has_the_epoch_it_was_written_under(history: list[tuple[int, int]]) -> None:
    epochs, written = build(history)
    assert [epochs.epoch_of(offset) for offset in range(len(written))] == written
    entries = epochs.entries()
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(entries))


@given(histories, st.integers(0, 40))
def test_end_offsets_are_where_a_later_epoch_begins(history: list[tuple[int, int]], asked: int) -> None:
    epochs, written = build(history)
    end = len(written)
    known = [epoch for epoch, _ in epochs.entries()]
    answer = epochs.end_offset_for(asked, end)
    later = [epoch for epoch in known if epoch > asked]
    if known and asked == known[-1]:
        assert answer == (asked, end)
    elif not later:
        assert answer == UNDEFINED
    else:
        begin = dict(epochs.entries())[later[0]]
        assert answer == (max((epoch for epoch in known if epoch <= asked), default=asked), begin)
    assert epochs.end_offset_for(-1, end) == UNDEFINED


@given(histories, st.integers(0, 50), st.integers(0, 50))
def test_cutting_either_end_keeps_the_epochs_between(history: list[tuple[int, int]], start: int, end: int) -> None:
    epochs, written = build(history)
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(start)
    kept = range(start, min(end, len(written)))
    assert [epochs.epoch_of(offset) for offset in kept] == [written[offset] for offset in kept]
    assert all(begin < end for _, begin in epochs.entries())
    assert sum(begin < start for _, begin in epochs.entries()) <= 1
    if 0 < start <= min(end, len(written)):
        assert epochs.epoch_of(start - 1) == written[start - 1], "the record before the log start"


@given(histories)
def test_the_file_is_read_back(history: list[tuple[int, int]]) -> None:
    epochs, _ = build(history)
    again = LeaderEpochs.decode(epochs.encode())
    assert again.entries() == epochs.entries()
    assert again.latest == epochs.latest


def test_a_cut_behind_the_last_epoch_changes_nothing_that_must_be_written() -> None:
    epochs = LeaderEpochs([(0, 0), (1, 5)])
    version = epochs.version
    epochs.truncate_from_end(6)
    assert (epochs.version, epochs.latest) == (version, 1)
    epochs.truncate_from_end(5)
    assert (epochs.version, epochs.latest) == (version + 1, 0)


def test_an_epoch_without_records_is_replaced() -> None:
    epochs = LeaderEpochs([(0, 0)])
    epochs.assign(2, 30)
    epochs.assign(4, 30)
    assert epochs.encode() == b"0\n2\n0 0\n4 30\n"


def test_the_same_epoch_again_changes_nothing() -> None:
    epochs = LeaderEpochs([(3, 10)])
    version = epochs.version
    epochs.assign(3, 20)
    assert epochs.version == version


@pytest.mark.parametrize(
    "data", [b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n2\n1 0\n0 5\n", b"0\n1\nx y\n", b"\xff\xfe", b"0\n"]
)
def test_a_damaged_file_is_noticed(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        LeaderEpochs.decode(data)
