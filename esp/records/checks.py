"""Whether a batch that was read back, or fetched from a leader, is the one that was written. No record is opened, no byte copied."""

from crc32c import crc32c

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    BatchHeader,
)


def check_batch(batch: Buffer, header: BatchHeader) -> None:
    """Check that ``batch`` is the whole batch of ``header`` (which was read from it), as it was written.

    It holds for every batch of a log, also of a compacted one, where fewer records than offsets, and none at all, are legal.

    Raises:
        CorruptionError: length, format, checksum or counts are wrong.
    """
    _, length, _, magic, crc, _, last_offset_delta, _, _, _, _, _, record_count = header
    size = length + SIZE_BEFORE_LENGTH_ENDS
    if size != len(batch) or size < HEADER_SIZE:
        raise CorruptionError(f"batch of {size} bytes where {len(batch)} are there")
    if magic != MAGIC:
        raise CorruptionError(f"batch of format {magic}; only {MAGIC} is known")
    if crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:]) != crc & 0xFFFF_FFFF:
        raise CorruptionError("batch does not match its checksum")
    if not 0 <= record_count <= last_offset_delta + 1:
        raise CorruptionError(f"batch of {record_count} records and last offset delta {last_offset_delta}")
