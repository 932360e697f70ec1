"""Reads the batches of a sealed segment in chunks, from either end, each batch compared with its checksum (CLEAN-6)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.disk import File
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC, BatchHeader, read_header, read_size
from esp.storage.segment import Segment


class Chunk(NamedTuple):
    """Whole batches that stand end to end in ``data``, at ``position`` in their file; ``batches`` are their places in it, with headers."""

    position: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]


class Place(NamedTuple):
    """The place of a chunk in its file, in bytes."""

    position: int
    size: int


def iterate_chunks_blocking(file: File, segment: Segment, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield the batches of a sealed segment, about ``chunk_bytes`` at a time, or one batch where that is larger.

    Args:
        file: the segment's, which may have been put aside.
        segment: says how large it is, and where the next one begins.
        chunk_bytes: read in one go.

    Raises:
        CorruptionError: a batch is not the one that was written there.
        OSError: the device failed.
    """
    next_offset = segment.base_offset
    for position, data, size in _iterate_data_blocking(file, segment.size, chunk_bytes):
        batches = _read_batches(file, position, data, size, next_offset, segment.next_base_offset)
        next_offset = batches[-1][1].next_offset
        yield Chunk(position, data, batches)


def iterate_chunks_back_blocking(
    file: File, segment: Segment, chunk_bytes: int, places: list[Place]
) -> Iterator[Chunk]:
    """Yield the batches of a sealed segment in such chunks, the last one first.

    Batches say where the next one begins, and not where the one before does. Where that is not known, or a chunk is not what ``places``
    say, the segment is read from its start to find the chunks, and chunks without batches are yielded meanwhile.

    Args:
        file: the segment's, which may have been put aside.
        segment: says how large it is, and where the next one begins.
        chunk_bytes: read in one go.
        places: of all chunks, if they are known (:func:`find_places`); they are used up.

    Raises:
        CorruptionError: a batch is not the one that was written there.
        OSError: the device failed.
    """
    end, end_offset = segment.size, segment.next_base_offset
    is_by_index = bool(places)
    while end:
        if not places:
            for position, data, size in _iterate_data_blocking(file, end, chunk_bytes):
                places.append(Place(position, size))
                yield Chunk(position, data, [])
        position, size = places.pop()
        data = bytes(file.read_blocking(position, size))
        try:
            batches = _read_batches(file, position, data, size, segment.base_offset, end_offset)
        except CorruptionError:
            if not is_by_index:
                raise
            is_by_index = False
            places.clear()
            continue
        end, end_offset = position, batches[0][1].base_offset
        yield Chunk(position, data, batches)


def find_places(size: int, chunk_bytes: int, positions: Sequence[int]) -> list[Place]:
    """Return the places of chunks that fill a segment, in their order; none if too few positions are known.

    Args:
        size: of the segment, in bytes.
        chunk_bytes: the most that a chunk has.
        positions: of batches, rising, by the segment's index. An index has no checksum: whether batches begin there is seen when they are
            read.
    """
    places: list[Place] = []
    start = number = 0
    while size - start > chunk_bytes:
        number = bisect_right(positions, start + chunk_bytes, number)
        end = positions[number - 1] if number else 0
        if not start < end < size:
            return []
        places.append(Place(start, end - start))
        start = end
    if start < size:
        places.append(Place(start, size - start))
    return places


def _iterate_data_blocking(file: File, end: int, chunk_bytes: int) -> Iterator[tuple[int, bytes, int]]:
    """Pieces of a segment up to ``end``: position, bytes, and how many of these are whole batches, by the lengths that batches give."""
    position = 0
    length = chunk_bytes
    while position < end:
        data = bytes(file.read_blocking(position, min(max(length, HEADER_SIZE), end - position)))
        length = chunk_bytes
        index, whole = 0, len(data) - HEADER_SIZE
        while index <= whole:
            size = read_size(data, index)
            if size < HEADER_SIZE or position + index + size > end:
                raise CorruptionError(f"{file.path} holds no batch at {position + index}")
            if index + size > len(data):
                length = size
                break
            index += size
        if index:
            yield position, data, index
            position += index
        elif length <= len(data):
            raise CorruptionError(f"{file.path} ends in the middle of the batch at {position}")


def _read_batches(
    file: File, position: int, data: bytes, size: int, next_offset: int, end_offset: int
) -> list[tuple[int, BatchHeader]]:
    """The batches that fill the first ``size`` bytes of ``data``, with offsets from ``next_offset`` on, below ``end_offset``.

    Raises:
        CorruptionError: a batch is not the one that was written there.
    """
    view = memoryview(data)
    batches: list[tuple[int, BatchHeader]] = []
    index = 0
    while index < size:
        header = read_header(data, index) if size - index >= HEADER_SIZE else None
        if header is None or header.magic != MAGIC or not HEADER_SIZE <= header.size <= size - index:
            raise CorruptionError(f"{file.path} holds no batch at {position + index}")
        end = index + header.size
        if crc32c(view[index + ATTRIBUTES_OFFSET : end]) != header.crc:
            raise CorruptionError(
                f"{file.path} is corrupt at {position + index}: a batch that does not match its checksum"
            )
        # No checksum covers offsets.
        is_misplaced = not next_offset <= header.base_offset <= header.last_offset < end_offset
        if is_misplaced or header.record_count < 0:
            raise CorruptionError(f"{file.path} is corrupt at {position + index}: {header}")
        next_offset = header.next_offset
        batches.append((index, header))
        index = end
    return batches
