"""Builds batches, for the broker's own records, for the producer and for tests; and the records that are handed to the builder or read
from a batch.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CONTROL_BIT,
    CRC_OFFSET,
    HEADER_SIZE,
    MAGIC,
    NO_SEQUENCE,
    SIZE_BEFORE_LENGTH_ENDS,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    pack_fields,
)
from esp.records.compression import compress
from esp.records.varint import append_varint

Headers = tuple[tuple[str, bytes | None], ...]
"""A record's headers in order; a name may stand more than once. Bytes of a name that are not UTF-8 are kept as surrogate escapes."""


class Record(NamedTuple):
    """A record at its place in a log. ``timestamp`` is in milliseconds since the Unix epoch, -1 if it has none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record without a place yet. Without a ``timestamp`` of its own (milliseconds) it takes that of its batch."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp: int | None = None


_CRC_SIZE: Final = 4


def build_batch(
    records: Sequence[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    timestamp_ms: int = -1,
    codec: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    control: bool = False,
    transactional: bool = False,
    log_append_time: bool = False,
) -> bytes:
    """Return one whole batch of ``records``, at least one, with its checksum.

    Args:
        records: they get consecutive offsets from ``base_offset`` on.
        base_offset: the first record's offset; producers say 0.
        leader_epoch: the partition's leader epoch; producers say -1.
        timestamp_ms: the timestamp of records that have none of their own; with ``log_append_time`` that of all.
        codec: number of the codec (:class:`~esp.records.compression.Codec`).
        producer_id: with ``producer_epoch`` and ``base_sequence``: the idempotent producer's (PROD-*).
        producer_epoch: see ``producer_id``.
        base_sequence: see ``producer_id``.
        control: whether the records are markers of the broker's own.
        transactional: whether the batch belongs to a transaction.
        log_append_time: whether ``timestamp_ms`` stands for the records' own timestamps.
    """
    assert records, "a batch has at least one record"
    timestamps = [timestamp_ms if record.timestamp is None else record.timestamp for record in records]
    attributes = 0
    if log_append_time:
        attributes |= TIMESTAMP_TYPE_BIT
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    return seal_batch(
        compress(codec, encode_records(records, timestamps)),
        len(records),
        base_timestamp=timestamps[0],
        max_timestamp=timestamp_ms if log_append_time else max(timestamps),
        attributes=attributes | int(codec),
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def encode_records(records: Sequence[NewRecord], timestamps: Sequence[int]) -> bytearray:
    """Return the bytes of a batch's records, with offset deltas from 0 on.

    Args:
        records: at least one.
        timestamps: the timestamp of each record, in milliseconds; the first one is the base of all.
    """
    base_timestamp = timestamps[0]
    body = bytearray()
    for offset_delta, (record, timestamp) in enumerate(zip(records, timestamps, strict=True)):
        _append_record(body, record, offset_delta, timestamp - base_timestamp)
    return body


def seal_batch(
    payload: Buffer,
    record_count: int,
    *,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
) -> bytes:
    """Return a whole batch, with its checksum, of records that are encoded already.

    Args:
        payload: the records, compressed by the codec that ``attributes`` names.
        record_count: the number of records in ``payload``, whose offset deltas are 0 to one less.
        base_timestamp: the timestamp from which the records' timestamps are counted.
        max_timestamp: the latest timestamp.
        attributes: the header's bits.
        base_offset: see :func:`build_batch`, as the rest.
        leader_epoch: see there.
        producer_id: see there.
        producer_epoch: see there.
        base_sequence: see there.
    """
    batch = bytearray(
        pack_fields(
            base_offset,
            HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload),
            leader_epoch,
            MAGIC,
            0,  # the checksum of what follows
            attributes,
            record_count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
    )
    batch += payload
    checksum = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:])
    batch[CRC_OFFSET : CRC_OFFSET + _CRC_SIZE] = checksum.to_bytes(_CRC_SIZE, "big")
    return bytes(batch)


def _append_record(output: bytearray, record: NewRecord, offset_delta: int, timestamp_delta: int) -> None:
    content = bytearray(1)  # the attributes, of which no bit has a meaning yet
    append_varint(content, timestamp_delta)
    append_varint(content, offset_delta)
    _append_bytes(content, record.key)
    _append_bytes(content, record.value)
    append_varint(content, len(record.headers))
    for name, value in record.headers:
        _append_bytes(content, name.encode("utf-8", "surrogateescape"))
        _append_bytes(content, value)
    append_varint(output, len(content))
    output += content


def _append_bytes(output: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(output, -1)
    else:
        append_varint(output, len(value))
        output += value
