"""Reads the batches of a sealed segment in chunks, each batch held against its checksum (CLEAN-6)."""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.disk import File
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, MAGIC, BatchHeader, read_header


class Chunk(NamedTuple):
    """Whole batches that stand end to end in ``data``, at ``position`` in their file; ``batches`` are their places in it, with headers."""

    position: int
    data: bytes
    batches: list[tuple[int, BatchHeader]]


def iterate_chunks_blocking(file: File, end: int, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield the batches in ``[0, end)`` of a segment, about ``chunk_bytes`` at a time, or one batch where that is larger.

    Raises:
        CorruptionError: a batch is not the one that was written there.
        OSError: the device failed.
    """
    position = next_offset = 0
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
            if header.base_offset < next_offset or header.last_offset_delta < 0 or header.record_count < 0:
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
