"""Reads the batches of a sealed segment in chunks, each batch held against its checksum (CLEAN-6)."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.disk import File
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC, BatchHeader, read_header
from esp.storage.segment import Segment


class Chunk(NamedTuple):
    """Whole batches that stand end to end in ``data``, at ``position`` in their file; ``batches`` are their places in it, with headers."""

    position: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]


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
    position = 0
    next_offset = segment.base_offset
    end, end_offset = segment.size, segment.next_base_offset
    length = chunk_bytes
    while position < end:
        data = bytes(file.read_blocking(position, min(max(length, HEADER_SIZE), end - position)))
        length = chunk_bytes
        view = memoryview(data)
        batches: list[tuple[int, BatchHeader]] = []
        index = 0
        while len(data) - index >= HEADER_SIZE:
            header = read_header(data, index)
            size = header.size
            if size < HEADER_SIZE or position + index + size > end or header.magic != MAGIC:
                raise CorruptionError(f"{file.path} holds no batch at {position + index}")
            if index + size > len(data):
                length = size
                break
            if crc32c(view[index + ATTRIBUTES_OFFSET : index + size]) != header.crc:
                raise CorruptionError(
                    f"{file.path} is corrupt at {position + index}: a batch that does not match its checksum"
                )
            is_misplaced = (
                not next_offset <= header.base_offset <= header.last_offset < end_offset
            )  # no checksum covers it
            if is_misplaced or header.record_count < 0:
                raise CorruptionError(f"{file.path} is corrupt at {position + index}: {header}")
            next_offset = header.next_offset
            batches.append((index, header))
            index += size
        if not index:
            if length <= len(data):
                raise CorruptionError(f"{file.path} ends in the middle of the batch at {position}")
            continue
        if batches:
            yield Chunk(position, data, batches)
        position += index
        length = max(chunk_bytes, HEADER_SIZE)
