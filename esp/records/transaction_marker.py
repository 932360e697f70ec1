"""The batch that ends a producer's transaction in one partition: Kafka's ``EndTransactionMarker``, one control record in a batch.

A marker carries its producer's id and epoch in the header, and the epoch of the coordinator that decided in its value (TXN-7).
"""

import struct
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch import iterate_records
from esp.records.batch_header import (
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    TRANSACTIONAL_BIT,
)
from esp.records.builder import seal_batch

_KEY: Final = struct.Struct(">hh")
"""Version and type of a control record."""
_VALUE: Final = struct.Struct(">hi")
"""Version and coordinator epoch."""
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1

_RECORD_FORMAT: Final = "5shhbhib"
"""The bytes before the key, the key, the value's length, the value, the number of headers."""
_RECORD: Final = struct.Struct(f">{_RECORD_FORMAT}")
_BEFORE_KEY: Final = bytes((2 * (_RECORD.size - 1), 0, 0, 0, 2 * _KEY.size))
"""The record's length, its attributes, both deltas, the key's length."""
_VALUE_LENGTH: Final = 2 * _VALUE.size
_SIZE: Final = HEADER_SIZE + _RECORD.size
_BATCH: Final = struct.Struct(f">8xi4xb4xhi30xi{_RECORD_FORMAT}")
"""The fields of a batch that are looked at: length, magic, attributes, last offset delta, number of records; then the record."""
_HEADER: Final = (_SIZE - SIZE_BEFORE_LENGTH_ENDS, MAGIC)


class Marker(NamedTuple):
    """The content of a marker."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """Return the batch, of 78 bytes; base offset and leader epoch are stamped when it is appended.

    Args:
        producer_id: the id of the producer whose transaction ends.
        producer_epoch: its epoch, or the one that follows it (KIP-890).
        is_commit: whether the transaction's records count.
        coordinator_epoch: the leader epoch of the coordinator's partition.
        timestamp_ms: wall time.
    """
    kind = _COMMIT if is_commit else _ABORT
    return seal_batch(
        _RECORD.pack(_BEFORE_KEY, _VERSION, kind, _VALUE_LENGTH, _VERSION, coordinator_epoch, 0),
        1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        attributes=CONTROL_BIT | TRANSACTIONAL_BIT,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def read_marker(batch: Buffer) -> Marker:
    """Return the content of a whole control batch of a producer; later versions of the record are read as far as they are known.

    Raises:
        CorruptionError: the batch holds no record, which is what compaction leaves of an old marker, or another one than a marker.
    """
    return _read_plain(batch) or _read_any(batch)


def _read_plain(batch: Buffer) -> Marker | None:
    """The content of a marker as all brokers write it; None for any other batch. A marker is read with each transaction."""
    if len(batch) < _SIZE:
        return None
    length, magic, attributes, last_delta, count, before_key, version, kind, value_length, *rest = _BATCH.unpack_from(
        batch
    )
    value_version, coordinator_epoch, header_count = rest
    is_plain = (
        (length, magic) == _HEADER
        and not (attributes & CODEC_MASK or last_delta or version or value_version or header_count)
        and count == 1
        and before_key == _BEFORE_KEY
        and value_length == _VALUE_LENGTH
        and kind in (_ABORT, _COMMIT)
    )
    return Marker(kind == _COMMIT, coordinator_epoch) if is_plain else None


def _read_any(batch: Buffer) -> Marker:
    for record in iterate_records(batch):
        key, value = record.key or b"", record.value or b""
        if len(key) < _KEY.size or len(value) < _VALUE.size:
            raise CorruptionError(f"a control record with a key of {len(key)} and a value of {len(value)} bytes")
        version, kind = _KEY.unpack_from(key)
        value_version, coordinator_epoch = _VALUE.unpack_from(value)
        if version < 0 or value_version < 0 or kind not in (_ABORT, _COMMIT):
            raise CorruptionError(f"a control record of type {kind} and versions {version} and {value_version}")
        return Marker(kind == _COMMIT, coordinator_epoch)
    raise CorruptionError("a control batch without a record")


def find_marker(batch: Buffer) -> Marker | None:
    """Read a marker, or return None where :func:`read_marker` raises: for batches that stand in a log already."""
    try:
        return read_marker(batch)
    except CorruptionError:
        return None
