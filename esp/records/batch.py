"""Checks of batches, and the records inside them. No byte is copied, and no record is opened unless records are asked for.

A batch that was read back, or fetched from a leader, is checked to be the one that was written. Every length is checked against the bytes
that are there, because any client may have sent the batch.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    BatchHeader,
    read_header,
)
from esp.records.builder import Headers, Record
from esp.records.compression import Allocate, decompress, decompress_uncopied
from esp.records.varint import read_varint, read_varlong


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


_LATEST_TIMESTAMP: Final = (1 << 63) - 1
"""The latest timestamp for which an answer has room. A producer's base and delta may add up to a later one."""

DECOMPRESSED_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of records that one batch may hold unless the caller says otherwise: far more than a request of default size brings."""


class TimestampedOffset(NamedTuple):
    """Where a timestamp was found, in milliseconds since the Unix epoch."""

    timestamp: int
    offset: int


def iterate_records(batch: Buffer, limit: int = DECOMPRESSED_LIMIT) -> Iterator[Record]:
    """Yield the records of one whole batch, in order of their offsets. The checksum is not looked at (:mod:`esp.records.batch`).

    With LogAppendTime every record carries the batch's largest timestamp (KIP-32).

    Args:
        batch: the batch from its first byte; bytes after its end are ignored.
        limit: bytes that the records may take when decompressed.

    Raises:
        CorruptionError: the batch is cut, of another format, holds more than ``limit`` bytes, or its records do not match its header;
            records before the bad place have been yielded.
    """
    header = read_whole_header(batch)
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit)
    position = 0
    previous_delta = -1
    append_time = header.max_timestamp if header.has_log_append_time else None
    try:
        for _ in range(header.record_count):
            length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > len(data):
                raise CorruptionError(f"record of {length} bytes where {len(data) - position} are left")
            timestamp_delta, position = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, position)
            if not previous_delta < offset_delta <= header.last_offset_delta:
                raise CorruptionError(
                    f"offset delta {offset_delta} after {previous_delta} of {header.last_offset_delta}"
                )
            previous_delta = offset_delta
            key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            headers, position = _read_headers(data, position, end)
            if position != end:
                raise CorruptionError(f"record ends at {position}, its length says {end}")
            yield Record(
                header.base_offset + offset_delta,
                header.base_timestamp + timestamp_delta if append_time is None else append_time,
                key,
                value,
                headers,
            )
    except IndexError as error:
        raise CorruptionError(f"record is cut at {len(data)}") from error
    if position != len(data):
        raise CorruptionError(f"{len(data) - position} bytes follow the last of {header.record_count} records")


def find_offset_by_timestamp(
    batch: Buffer,
    timestamp: int,
    start_offset: int = 0,
    limit: int = DECOMPRESSED_LIMIT,
    allocate: Allocate | None = None,
) -> TimestampedOffset | None:
    """Return the first record at or after ``start_offset`` whose timestamp is ``timestamp`` or later, None if there is none.

    With the batch's own ``max_timestamp`` it answers ListOffsets' "max timestamp" (KIP-734). Keys and values are passed over: they may be
    large; for ``allocate`` see :func:`~esp.records.compression.decompress_uncopied`. A record whose timestamp does not fit 64 bits is
    passed over too: in Kafka it has a negative one.

    Raises:
        CorruptionError: the batch is cut, of another format, holds more than ``limit`` bytes, or its records are not where they should be.
    """
    header = read_whole_header(batch)
    if header.max_timestamp < timestamp:
        return None
    data = decompress_uncopied(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit, allocate)
    append_time = header.max_timestamp if header.has_log_append_time else None
    position = 0
    try:
        for _ in range(header.record_count):
            length, position = read_varint(data, position)
            end = position + length
            if length < 0 or end > len(data):
                raise CorruptionError(f"record of {length} bytes where {len(data) - position} are left")
            timestamp_delta, position = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, position)
            if position > end:
                raise CorruptionError(f"record ends at {end}, its offset delta at {position}")
            offset = header.base_offset + offset_delta
            record_timestamp = header.base_timestamp + timestamp_delta if append_time is None else append_time
            if timestamp <= record_timestamp <= _LATEST_TIMESTAMP and offset >= start_offset:
                return TimestampedOffset(record_timestamp, offset)
            position = end
    except IndexError as error:
        raise CorruptionError(f"record is cut at {len(data)}") from error
    return None


def read_whole_header(batch: Buffer) -> BatchHeader:
    """Read the header of a batch that must be there as a whole.

    Raises:
        CorruptionError: fewer bytes than the header, or than it says; another format; impossible counts.
    """
    if len(batch) < HEADER_SIZE:
        raise CorruptionError(f"{len(batch)} bytes are less than a batch header")
    header = read_header(batch)
    if not HEADER_SIZE <= header.size <= len(batch):
        raise CorruptionError(f"batch of {header.size} bytes where {len(batch)} are there")
    if header.magic != MAGIC:
        raise CorruptionError(f"batch of format {header.magic}; only {MAGIC} is known")
    if header.record_count < 0 or header.last_offset_delta < 0:
        raise CorruptionError(
            f"batch of {header.record_count} records and last offset delta {header.last_offset_delta}"
        )
    return header


def _read_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """Read a length and that many bytes; -1 stands for None."""
    length, position = read_varint(data, position)
    if length < 0:
        if length != -1:
            raise CorruptionError(f"field of {length} bytes")
        return None, position
    stop = position + length
    if stop > end:
        raise CorruptionError(f"field of {length} bytes where {end - position} are left in the record")
    return data[position:stop], stop


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    count, position = read_varint(data, position)
    if count == 0:
        return (), position
    if not 0 < count <= end - position:
        raise CorruptionError(f"{count} headers where {end - position} bytes are left in the record")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _read_bytes(data, position, end)
        if name is None:
            raise CorruptionError("header without a name")
        value, position = _read_bytes(data, position, end)
        headers.append((name.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position
