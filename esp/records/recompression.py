"""A batch in another codec: its records opened, each of them checked, and kept as one batch again (Kafka's ``LogValidator``).

The records themselves stay byte for byte what their producer wrote, and so do producer id, epoch and sequence. Works on bytes that it is
given whole and shares nothing, so that a thread may do it.
"""

from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    HEADER_SIZE,
    NO_TIMESTAMP,
    SIZE_BEFORE_LENGTH_ENDS,
    BatchHeader,
    pack_header,
    read_header,
)
from esp.records.compression import Allocate, compress, decompress_uncopied
from esp.records.varint import GOES_ON, read_on, read_varint, read_varlong

_NEVER: Final = 1 << 63
"""After all timestamps."""

_ABSENT: Final = 1
"""-1, the length of a key or value that is not there, as it stands in the bytes."""


class Recompressed(NamedTuple):
    """The batch in its new codec, writable, and the earliest timestamp of a record in it, -1 if no record has one."""

    batch: bytearray
    earliest_timestamp: int


def recompress(
    batch: bytes | bytearray, codec: int, level: int | None, limit: int, allocate: Allocate | None = None
) -> Recompressed:
    """Return a produced batch with its records in another codec.

    Args:
        batch: a whole batch whose header was found to be sound.
        codec: the number of the new codec.
        level: how hard it works, as Kafka's settings number it.
        limit: bytes that the records may take when decompressed.
        allocate: see :func:`~esp.records.compression.decompress_uncopied`.

    Raises:
        CorruptionError: the bytes are not of the codec that the header says, the records do not match the header, or they take more
            than ``limit`` bytes (TooLargeError).
    """
    header = read_header(batch)
    records = decompress_uncopied(header.codec, memoryview(batch)[HEADER_SIZE : header.size], limit, allocate)
    earliest, latest = _check_records(records, header)
    payload = compress(codec, records, level)
    header = header._replace(
        batch_length=HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload),
        attributes=header.attributes & ~CODEC_MASK | codec,
        max_timestamp=latest,
    )
    output = bytearray(pack_header(header))
    output += payload
    output[:HEADER_SIZE] = pack_header(header._replace(crc=crc32c(memoryview(output)[ATTRIBUTES_OFFSET:])))
    return Recompressed(output, earliest)


def _check_records(data: Buffer, header: BatchHeader) -> tuple[int, int]:
    """Hold records against their batch's header; return their earliest and their latest timestamp.

    A batch may hold a million records, and no other code of the process gets far while this runs: integers of one byte or two, which nearly
    all are, are read here, and keys and values are passed over.

    Raises:
        CorruptionError: they do not match the header, or their offsets do not follow one another.
    """
    size = len(data)
    base_timestamp = header.base_timestamp
    earliest, latest = _NEVER, NO_TIMESTAMP
    position = 0
    try:
        for offset_delta in range(header.record_count):
            raw, position = data[position], position + 1
            if raw >= GOES_ON:
                raw, position = read_on(data, position, raw)
            end = position + (raw >> 1)
            if raw & 1 or end > size:
                raise CorruptionError(f"record of {raw >> 1} bytes where {size - position} are left")
            raw, position = data[position + 1], position + 2  # behind the attributes, of which no bit has a meaning yet
            if raw < GOES_ON:
                timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1))
            else:
                delta, position = read_varlong(data, position - 1)
                timestamp = base_timestamp + delta
            if timestamp > latest:
                latest = timestamp
            if timestamp < earliest and timestamp != NO_TIMESTAMP:
                earliest = timestamp
            raw, position = data[position], position + 1
            if raw >= GOES_ON:
                raw, position = read_on(data, position, raw)
            if raw != offset_delta << 1:
                raise CorruptionError(f"the record at {offset_delta} has another offset delta")
            position = _skip_key_and_value(data, position)
            position = position + 1 if not data[position] else _skip_headers(data, position, end)
            if position != end:
                raise CorruptionError(f"record ends at {position}, its length says {end}")
    except IndexError as error:
        raise CorruptionError(f"record is cut at {size}") from error
    if position != size:
        raise CorruptionError(f"{size - position} bytes follow the last of {header.record_count} records")
    if latest >= _NEVER or earliest < 0:
        raise CorruptionError(f"records have timestamps from {earliest} to {latest}")
    return NO_TIMESTAMP if earliest == _NEVER else earliest, latest


def _skip_key_and_value(data: Buffer, position: int) -> int:
    for _key_and_value in (0, 1):
        raw, position = data[position], position + 1
        if raw >= GOES_ON:
            raw, position = read_on(data, position, raw)
        if not raw & 1:
            position += raw >> 1
        elif raw != _ABSENT:
            raise CorruptionError(f"field of -{(raw >> 1) + 1} bytes")
    return position


def _skip_headers(data: Buffer, position: int, end: int) -> int:
    count, position = read_varint(data, position)
    if not 0 <= count <= end - position:
        raise CorruptionError(f"{count} headers where {end - position} bytes are left in the record")
    for _ in range(count):
        length, position = read_varint(data, position)
        if length < 0:
            raise CorruptionError("header without a name")
        length, position = read_varint(data, position + length)
        if length < -1:
            raise CorruptionError(f"header of {length} bytes")
        position += max(0, length)
    return position
