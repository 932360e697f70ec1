import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.storage.offset_index import OffsetIndex

BASE = 1000
rising = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=30)


def build(steps: list[tuple[int, int]]) -> tuple[OffsetIndex, list[tuple[int, int]]]:
    index = OffsetIndex(BASE)
    entries = []
    offset, position = BASE, 0
    for more_offsets, more_bytes in steps:
        offset += more_offsets
        position += more_bytes
        entries.append((offset, position))
        index.append(offset, position)
    return index, entries


@given(rising, st.integers(BASE - 5, BASE + 1600), st.integers(0, 200_000))
def test_lookups_are_those_of_a_list(steps: list[tuple[int, int]], offset: int, position: int) -> None:
    index, entries = build(steps)
    assert index.floor(offset) == max((p for o, p in entries if o <= offset), default=0)
    assert index.floor_position(position) == max((p for _, p in entries if p <= position), default=0)
    assert index.count_within(offset, position) == sum(o < offset and p < position for o, p in entries)


@given(rising, st.integers(0, 30))
def test_files_are_read_back(steps: list[tuple[int, int]], start: int) -> None:
    index, entries = build(steps)
    data = index.encode(0)
    assert data == b"".join(struct.pack(">ii", o - BASE, p) for o, p in entries)
    assert index.encode(start) == data[start * 8 :]
    again = OffsetIndex.decode(BASE, data)
    assert [again.entry(number) for number in range(len(again))] == entries
    assert again.saved == len(entries)


def test_padding_and_what_does_not_rise_is_left_out() -> None:
    data = struct.pack(">iiiiii", 5, 100, 9, 200, 9, 300) + bytes(80)
    assert len(OffsetIndex.decode(BASE, data)) == 2
    assert len(OffsetIndex.decode(BASE, bytes(800))) == 0
    assert len(OffsetIndex.decode(BASE, struct.pack(">iiii", 5, 200, 9, 100))) == 1


def test_a_size_that_is_no_multiple_is_corrupt() -> None:
    with pytest.raises(CorruptionError):
        OffsetIndex.decode(BASE, bytes(12))
