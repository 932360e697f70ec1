"""Chunks of a segment from its end on backwards: the same batches as from its start, whatever its index says."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import HEADER_SIZE, BatchHeader
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.compaction.chunks import (
    Chunk,
    Place,
    find_places,
    iterate_chunks_back_blocking,
    iterate_chunks_blocking,
)
from esp.storage.compaction.cleaning import LogRound, cleanable_part
from esp.storage.layout import INDEX_SUFFIX
from esp.storage.offset_index import ENTRY_SIZE
from esp.storage.segment import Segment
from tests.unit.storage.compaction.cleaned import COMPACTED, SMALL, clean, headers_of, put, settle
from tests.unit.storage.helpers import new_disk, new_log

CHUNK_BYTES = 400
LARGE = replace(COMPACTED, segment_bytes=1 << 20)
SIZES = [10, 200, 30, 700, 1, 1, 1, 150, 90, 300]
"""The bytes of values, one larger than a chunk."""


def new_segment(sizes: Sequence[int] = SIZES) -> tuple[SimulatedDisk, Segment]:
    """A sealed segment with a batch for each size."""
    disk = new_disk()
    _, log = new_log(disk, LARGE)
    for size in sizes:
        put(log, (b"key", bytes(size)))
    settle(log)
    return disk, LogRound(log, cleanable_part(log, 2000), SMALL, 2000).plan.segments[0]


def read_back(segment: Segment, places: Sequence[Place]) -> list[Chunk]:
    source = segment.emptied()
    source.open()
    return list(iterate_chunks_back_blocking(source.file, segment, CHUNK_BYTES, list(places)))


def headers_from_start(segment: Segment) -> list[BatchHeader]:
    source = segment.emptied()
    source.open()
    chunks = iterate_chunks_blocking(source.file, segment, CHUNK_BYTES)
    return [header for chunk in chunks for _, header in chunk.batches]


def headers_of_chunks(chunks: Sequence[Chunk]) -> list[BatchHeader]:
    return [header for chunk in reversed(chunks) for _, header in chunk.batches]


def starts_of(headers: Sequence[BatchHeader]) -> list[int]:
    return [sum(header.size for header in headers[:number]) for number in range(1, len(headers))]


def test_known_places_make_it_needless_to_read_the_segment_twice() -> None:
    _, segment = new_segment([10, 200, 30, 150, 1, 90])
    headers = headers_from_start(segment)
    chunks = read_back(segment, find_places(segment.size, CHUNK_BYTES, starts_of(headers)))
    assert headers_of_chunks(chunks) == headers
    assert sum(len(chunk.data) for chunk in chunks) == segment.size
    assert all(len(chunk.data) <= CHUNK_BYTES for chunk in chunks)


@pytest.mark.parametrize("positions", [[], [100], [100, 600]])
def test_no_places_are_known_where_positions_are_further_apart_than_a_chunk_is_large(positions: list[int]) -> None:
    assert not find_places(1050, CHUNK_BYTES, positions)
    assert find_places(CHUNK_BYTES, CHUNK_BYTES, positions) == [(0, CHUNK_BYTES)]
    assert not find_places(0, CHUNK_BYTES, positions)


@given(st.data())
def test_whatever_an_index_says_the_batches_are_the_same(draw: st.DataObject) -> None:
    _, segment = new_segment()
    headers = headers_from_start(segment)
    position = st.sampled_from(starts_of(headers)) | st.integers(1, segment.size + 9)
    positions = sorted(draw.draw(st.sets(position, max_size=20)))
    chunks = read_back(segment, find_places(segment.size, CHUNK_BYTES, positions))
    assert headers_of_chunks(chunks) == headers
    assert all(len(chunk.data) <= CHUNK_BYTES or len(chunk.batches) <= 1 for chunk in chunks)


@pytest.mark.parametrize("has_places", [True, False])
def test_rot_is_found(has_places: bool) -> None:
    disk, segment = new_segment()
    headers = headers_from_start(segment)
    disk.corrupt(segment.path(".log"), starts_of(headers)[0] + HEADER_SIZE + 1)
    with pytest.raises(CorruptionError):
        read_back(segment, find_places(segment.size, 1000, starts_of(headers)) if has_places else [])


@pytest.mark.parametrize("damage", ["rotten", "cut", "missing"])
def test_a_round_does_without_an_index(damage: str) -> None:
    disk = new_disk()
    _, log = new_log(disk, LARGE)
    for number in range(60):
        put(log, (b"key %d" % (number % 7), bytes(50)))
    settle(log)
    path = f"{log.path}/{0:020}{INDEX_SUFFIX}"
    assert disk.stat(path).size > 10 * ENTRY_SIZE
    if damage == "rotten":
        disk.corrupt(path, 3 * ENTRY_SIZE - 1, 4)
    elif damage == "cut":
        disk.write_file(path, disk.read_file(path)[:-3])
    else:
        disk.remove(path)
    counts = clean(log)
    assert counts is not None
    assert sum(header.record_count for header in headers_of(log)) == 7
    assert log.rot is None
