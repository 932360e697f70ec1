"""The leader's demands on a batch that a client sends, before the first byte of it is written (PRODUCE-5).

Records are not opened, unless they are to be recompressed (:mod:`esp.replication.topic_codec`): the fields of the header are compared with
one another, with the bytes and with the topic's settings. The error codes and their order are Kafka's (``ProduceRequest.validateRecords``,
``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``).
"""

import struct
from typing import Final

from crc32c import crc32c

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CONTROL_BIT,
    CRC_OFFSET,
    HEADER_SIZE,
    MAGIC,
    MAX_TIMESTAMP_OFFSET,
    NO_TIMESTAMP,
    SIZE_BEFORE_LENGTH_ENDS,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    HeaderFields,
    read_fields,
)
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings

HIGHEST_CODEC = 4
ZSTD = 4
_KNOWN_ATTRIBUTES = 0x7F

_UINT32: Final = struct.Struct(">I")
_INT16: Final = struct.Struct(">h")
_INT64: Final = struct.Struct(">q")


def validate_produced(
    batch: memoryview, settings: TopicSettings, now_ms: int, *, zstd_allowed: bool, transactional_allowed: bool = False
) -> HeaderFields:
    """Check a client's bytes for one partition and return the batch's header.

    Args:
        batch: the bytes of the request's ``records`` field.
        settings: the topic's.
        now_ms: wall time, against which CreateTime timestamps are held.
        zstd_allowed: whether the version of the request knows zstd (PROD-4).
        transactional_allowed: whether the request names a transactional id.

    Raises:
        ApiError: with the code that the producer is answered; nothing of the batch may be appended.
    """
    size = len(batch)
    if size < HEADER_SIZE:
        raise ApiError(ErrorCode.invalid_record, f"A record batch has at least {HEADER_SIZE} bytes, here are {size}")
    header = read_fields(batch)
    base_offset, length, _, magic, crc, attributes, delta, earliest, latest, producer_id, epoch, sequence, count = (
        header
    )
    header_says = length + SIZE_BEFORE_LENGTH_ENDS
    if header_says < HEADER_SIZE or not 0 <= magic <= MAGIC:
        raise ApiError(ErrorCode.corrupt_message, f"Not a batch: {header_says} bytes of magic {magic}")
    if magic != MAGIC:
        raise ApiError(ErrorCode.invalid_record, f"Produce requests carry record batches of magic 2, not {magic}")
    if header_says != size:
        raise ApiError(
            ErrorCode.invalid_record,
            f"A produce request carries one whole record batch for a partition; this one has {header_says} bytes, {size} came",
        )
    if size > settings.max_message_bytes:
        raise ApiError(
            ErrorCode.message_too_large,
            f"The record batch size is {size} bytes, which exceeds the maximum configured value of {settings.max_message_bytes}.",
        )
    if crc32c(batch[ATTRIBUTES_OFFSET:]) != crc:
        raise ApiError(ErrorCode.corrupt_message, "The batch's checksum does not match its bytes")
    # One test for the common case: no flag that needs a look, an ordinary codec.
    if attributes & ~0x07 or attributes >= ZSTD:
        _validate_attributes(attributes, zstd_allowed=zstd_allowed, transactional_allowed=transactional_allowed)
    if base_offset != 0:
        raise ApiError(ErrorCode.invalid_record, f"The base offset of a produced batch is 0, not {base_offset}")
    if count < 1 or delta != count - 1:
        raise ApiError(
            ErrorCode.invalid_record,
            f"{count} records do not go with a last offset delta of {delta}",
        )
    if producer_id >= 0 and (epoch < 0 or sequence < 0):
        raise ApiError(ErrorCode.invalid_record, "An idempotent batch needs a producer epoch and a sequence")
    validate_timestamps(earliest, latest, settings, now_ms)
    return header


def is_sound(records: memoryview | None) -> bool:
    """False if the bytes are a batch whose checksum does not match them: what it says of its producer is not to be believed."""
    if records is None or len(records) < HEADER_SIZE:
        return True
    _, _, _, magic, crc, *_ = read_fields(records)
    return magic != MAGIC or crc32c(records[ATTRIBUTES_OFFSET:]) == crc


def _validate_attributes(attributes: int, *, zstd_allowed: bool, transactional_allowed: bool) -> None:
    codec = attributes & 0x07
    if codec > HIGHEST_CODEC or attributes & ~_KNOWN_ATTRIBUTES:
        raise ApiError(ErrorCode.invalid_record, f"Unknown batch attributes {attributes:#06x}")
    if codec == ZSTD and not zstd_allowed:
        raise ApiError(ErrorCode.unsupported_compression_type, "zstd needs produce requests of version 7 or later")
    if attributes & CONTROL_BIT:
        raise ApiError(ErrorCode.invalid_record, "Clients cannot write control records")
    if attributes & TRANSACTIONAL_BIT and not transactional_allowed:
        raise ApiError(
            ErrorCode.transactional_id_authorization_failed,
            "A transactional batch needs a request with a transactional id",
        )
    if attributes & TIMESTAMP_TYPE_BIT:
        raise ApiError(ErrorCode.invalid_timestamp, "A producer's timestamps are of the type CreateTime")


def validate_timestamps(earliest: int, latest: int, settings: TopicSettings, now_ms: int) -> None:
    """Hold the timestamps of records against the topic's settings and the broker's clock, unless that stamps them itself.

    Raises:
        ApiError: INVALID_TIMESTAMP.
    """
    if latest == NO_TIMESTAMP or settings.message_timestamp_type != "CreateTime":
        return
    if latest - now_ms > settings.message_timestamp_after_max_ms:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"Timestamp {latest} is more than {settings.message_timestamp_after_max_ms} ms after the broker's time {now_ms}",
        )
    before_max_ms = settings.message_timestamp_before_max_ms
    if before_max_ms != LONG_MAX and now_ms - earliest > before_max_ms:
        raise ApiError(
            ErrorCode.invalid_timestamp,
            f"Timestamp {earliest} is more than {before_max_ms} ms before the broker's time {now_ms}",
        )


def stamp_append_time(batch: memoryview, fields: HeaderFields, now_ms: int) -> HeaderFields:
    """Put the broker's time in place of the records' own (LogAppendTime), and return the header that the batch has now."""
    header = BatchHeader(*fields)
    header = header._replace(max_timestamp=now_ms, attributes=header.attributes | TIMESTAMP_TYPE_BIT)
    _INT16.pack_into(batch, ATTRIBUTES_OFFSET, header.attributes)
    _INT64.pack_into(batch, MAX_TIMESTAMP_OFFSET, now_ms)
    header = header._replace(crc=crc32c(batch[ATTRIBUTES_OFFSET:]))
    _UINT32.pack_into(batch, CRC_OFFSET, header.crc)
    return header
