"""Records of ``__share_group_state`` as key and value of a log record: Kafka's ``ShareCoordinatorRecordSerde``.

Keys are plain, values flexible; all are of version 0, and what came later stands in tagged fields. The bytes are those of Kafka 4.3.
"""

import struct
import uuid
from collections.abc import Iterable
from typing import Final

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.keyed_values import ValueReader, encode_string, encode_unsigned_varint, read_version
from esp.schemas.share_state_records import (
    NO_COMPLETE_COUNT,
    RecordState,
    ShareSnapshotRecord,
    ShareSnapshotValue,
    ShareStateKey,
    ShareUpdateRecord,
    ShareUpdateValue,
    StateBatch,
)

_SNAPSHOT_TYPE: Final = 0
_UPDATE_TYPE: Final = 1

_COMPLETE_COUNT_TAG: Final = 0
_NO_TAGS: Final = b"\x00"
_COMPLETE_COUNT_HEAD: Final = bytes((1, _COMPLETE_COUNT_TAG, 4))

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_SNAPSHOT: Final = struct.Struct(">hiiiqqq")
_UPDATE: Final = struct.Struct(">hiiq")
_BATCH: Final = struct.Struct(">qqbh")
_MASK: Final = (1 << 64) - 1
_PERSISTED: Final = frozenset(RecordState) - {RecordState.ACQUIRED}


def encode_share_snapshot_key(key: ShareStateKey) -> bytes:
    """The key of a snapshot."""
    return _I16.pack(_SNAPSHOT_TYPE) + _encode_key(key)


def encode_share_update_key(key: ShareStateKey) -> bytes:
    """The key of an update."""
    return _I16.pack(_UPDATE_TYPE) + _encode_key(key)


def encode_share_snapshot_value(value: ShareSnapshotValue) -> bytes:
    """All that is persisted of a share partition."""
    head = _SNAPSHOT.pack(
        0,
        value.snapshot_epoch,
        value.state_epoch,
        value.leader_epoch,
        value.start_offset,
        value.create_timestamp_ms,
        value.write_timestamp_ms,
    )
    return head + _encode_batches(value.batches) + _encode_complete_count(value.complete_count)


def encode_share_update_value(value: ShareUpdateValue) -> bytes:
    """A change of a share partition."""
    head = _UPDATE.pack(0, value.snapshot_epoch, value.leader_epoch, value.start_offset)
    return head + _encode_batches(value.batches) + _encode_complete_count(value.complete_count)


def decode_share_state_record(key: bytes, value: bytes | None) -> ShareSnapshotRecord | ShareUpdateRecord | None:
    """Return the content of a record; None if it is of another type, or the tombstone of an update, which nothing writes.

    Raises:
        CorruptionError: the value's version or a state in it is not known, or the bytes are malformed.
    """
    keys = ValueReader(key)
    number = keys.i16()
    if number not in (_SNAPSHOT_TYPE, _UPDATE_TYPE):
        return None
    record_key = ShareStateKey(keys.string(), _read_topic_id(keys), keys.i32())
    keys.require_end()
    if value is None:
        return ShareSnapshotRecord(record_key, None) if number == _SNAPSHOT_TYPE else None
    values = ValueReader(value)
    read_version(values, "state of a share partition", 0)
    values.is_flexible = True
    if number == _SNAPSHOT_TYPE:
        return ShareSnapshotRecord(record_key, _read_snapshot(values))
    return ShareUpdateRecord(record_key, _read_update(values))


def _read_snapshot(reader: ValueReader) -> ShareSnapshotValue:
    snapshot = ShareSnapshotValue(
        snapshot_epoch=reader.i32(),
        state_epoch=reader.i32(),
        leader_epoch=reader.i32(),
        start_offset=reader.i64(),
        create_timestamp_ms=reader.i64(),
        write_timestamp_ms=reader.i64(),
        batches=_read_batches(reader),
        complete_count=_read_complete_count(reader),
    )
    reader.require_end()
    return snapshot


def _read_update(reader: ValueReader) -> ShareUpdateValue:
    update = ShareUpdateValue(
        snapshot_epoch=reader.i32(),
        leader_epoch=reader.i32(),
        start_offset=reader.i64(),
        batches=_read_batches(reader),
        complete_count=_read_complete_count(reader),
    )
    reader.require_end()
    return update


def _encode_key(key: ShareStateKey) -> bytes:
    return encode_string(key.group_id) + key.topic_id.bytes + _I32.pack(key.partition)


def _read_topic_id(reader: ValueReader) -> TopicId:
    return TopicId(uuid.UUID(int=(reader.i64() & _MASK) << 64 | reader.i64() & _MASK))


def _encode_batches(batches: Iterable[StateBatch]) -> bytes:
    encoded = [
        _BATCH.pack(batch.start_offset, batch.end_offset - 1, batch.state, batch.delivery_count) + _NO_TAGS
        for batch in batches
    ]
    return encode_unsigned_varint(len(encoded) + 1) + b"".join(encoded)


def _read_batches(reader: ValueReader) -> tuple[StateBatch, ...]:
    return tuple(_read_batch(reader) for _ in range(reader.count()))


def _read_batch(reader: ValueReader) -> StateBatch:
    start_offset, last_offset, state, delivery_count = reader.i64(), reader.i64(), reader.i8(), reader.i16()
    reader.tags()
    if state not in _PERSISTED:
        raise CorruptionError(f"records of a share partition are in state {state}, which is not one that is persisted")
    if not 0 <= start_offset <= last_offset:
        raise CorruptionError(f"a batch of a share partition goes from offset {start_offset} to {last_offset}")
    return StateBatch(start_offset, last_offset + 1, RecordState(state), delivery_count)


def _encode_complete_count(count: int) -> bytes:
    return _NO_TAGS if count == NO_COMPLETE_COUNT else _COMPLETE_COUNT_HEAD + _I32.pack(count)


def _read_complete_count(reader: ValueReader) -> int:
    data = reader.tags().get(_COMPLETE_COUNT_TAG)
    if data is None:
        return NO_COMPLETE_COUNT
    if len(data) != _I32.size:
        raise CorruptionError(f"a tagged field has {len(data)} bytes instead of {_I32.size}")
    return int(_I32.unpack(data)[0])
