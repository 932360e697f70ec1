"""The batch that ends a producer's transaction in one partition: Kafka's ``EndTransactionMarker``, one control record in a batch.

A marker carries its producer's id and epoch in the header, and the epoch of the coordinator that decided in its value (TXN-7).
"""

import struct
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch import iterate_records
from esp.records.builder import NewRecord, build_batch

_KEY: Final = struct.Struct(">hh")
"""Version and type of a control record."""
_VALUE: Final = struct.Struct(">hi")
"""Version and coordinator epoch."""
_VERSION: Final = 0
_ABORT: Final = 0
_COMMIT: Final = 1


class Marker(NamedTuple):
    """The content of a marker."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, is_commit: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytes:
    """Return the batch, of 78 bytes; base offset and leader epoch are stamped when it is appended.

    Args:
        producer_id: of the producer whose transaction ends.
        producer_epoch: its epoch, or the one that follows it (KIP-890).
        is_commit: whether the transaction's records count.
        coordinator_epoch: the leader epoch of the coordinator's partition.
        timestamp_ms: wall time.
    """
    return build_batch(
        [
            NewRecord(
                _VALUE.pack(_VERSION, coordinator_epoch), key=_KEY.pack(_VERSION, _COMMIT if is_commit else _ABORT)
            )
        ],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        control=True,
        transactional=True,
    )


def read_marker(batch: Buffer) -> Marker:
    """Return the content of a whole control batch of a producer; later versions of the record are read as far as they are known.

    Raises:
        CorruptionError: the batch holds no record, which is what compaction leaves of an old marker, or another one than a marker.
    """
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
    """As :func:`read_marker`, None where that raises: for batches that stand in a log already."""
    try:
        return read_marker(batch)
    except CorruptionError:
        return None
