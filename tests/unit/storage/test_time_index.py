import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.storage.time_index import TimeIndex, decode_entry

BASE = 1000
rising = st.lists(st.tuples(st.integers(1, 500), st.integers(1, 50)), max_size=30)


def build(steps: list[tuple[int, int]]) -> tuple[TimeIndex, list[tuple[int, int]]]:
    index = TimeIndex(BASE)
    entries = []
    timestamp, offset = 10_000, BASE
    for more_ms, more_offsets in steps:
        timestamp += more_ms
        offset += more_offsets
        entries.append((timestamp, offset))
        index.maybe_append(timestamp, offset)
    return index, entries


@given(rising, st.integers(9_000, 26_000))
def test_lookups_are_those_of_a_list(steps: list[tuple[int, int]], timestamp: int) -> None:
    index, entries = build(steps)
    assert index.floor_entry(timestamp) == max(((t, o) for t, o in entries if t < timestamp), default=None)
    assert index.last() == (entries[-1] if entries else (-1, BASE))


@given(rising)
def test_files_are_read_back(steps: list[tuple[int, int]]) -> None:
    index, entries = build(steps)
    data = index.encode(0)
    assert data == b"".join(struct.pack(">qi", t, o - BASE) for t, o in entries)
    again = TimeIndex.decode(BASE, data + bytes(24 if entries else 0))
    assert again.encode(0) == data
    if entries:
        assert decode_entry(BASE, data[-12:]) == entries[-1]


def test_only_larger_timestamps_are_taken() -> None:
    index = TimeIndex(BASE)
    index.maybe_append(-1, BASE)
    assert len(index) == 0
    index.maybe_append(50, BASE + 3)
    index.maybe_append(50, BASE + 9)
    index.maybe_append(49, BASE + 9)
    assert index.last() == (50, BASE + 3)


def test_a_size_that_is_no_multiple_is_corrupt() -> None:
    with pytest.raises(CorruptionError):
        TimeIndex.decode(BASE, bytes(13))
