"""Records of ``__transaction_state`` as key and value of a log record: Kafka's ``TransactionLog``.

Version 0 of a value is plain and written while ``transaction.version`` is 0; version 1 is flexible and has the fields that the epoch bump
of KIP-890 needs. Tagged fields at their defaults are not written.
"""

import struct
from typing import Final

from esp.model.errors import CorruptionError
from esp.schemas.keyed_values import (
    ValueReader,
    encode_compact_string,
    encode_string,
    encode_unsigned_varint,
    read_version,
)
from esp.schemas.transaction_records import (
    NO_PRODUCER_ID,
    PartitionsOfTopic,
    TransactionRecord,
    TransactionStatus,
    TransactionValue,
)

PLAIN_VERSION: Final = 0
FLEXIBLE_VERSION: Final = 1

_KEY_TYPE: Final = 0
_PREVIOUS_PRODUCER_ID_TAG: Final = 0
_NEXT_PRODUCER_ID_TAG: Final = 1
_CLIENT_VERSION_TAG: Final = 2
_START: Final = struct.Struct(">hqhib")
_TIMES: Final = struct.Struct(">qq")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TAGGED_I16: Final = struct.Struct(">bbh")
_TAGGED_I64: Final = struct.Struct(">bbq")
"""Tag, size, number."""
_NULL_COUNT: Final = -1


def encode_transaction_key(transactional_id: str) -> bytes:
    """The key of a transactional id."""
    return _I16.pack(_KEY_TYPE) + encode_string(transactional_id)


def encode_transaction_value(value: TransactionValue, version: int) -> bytes:
    """The state of a transactional id.

    Args:
        value: the state.
        version: PLAIN_VERSION, which has no room for the last three fields, or FLEXIBLE_VERSION.
    """
    is_flexible = version >= FLEXIBLE_VERSION
    parts = [_START.pack(version, value.producer_id, value.producer_epoch, value.timeout_ms, value.status)]
    parts.append(_count(_NULL_COUNT if value.partitions is None else len(value.partitions), is_flexible))
    for topic, partitions in value.partitions or ():
        parts.append(encode_compact_string(topic) if is_flexible else encode_string(topic))
        parts.append(_count(len(partitions), is_flexible))
        parts += map(_I32.pack, partitions)
        if is_flexible:
            parts.append(b"\x00")
    parts.append(_TIMES.pack(value.last_update_ms, value.start_ms))
    if is_flexible:
        parts.append(_encode_tags(value))
    return b"".join(parts)


def decode_transaction_record(key: bytes | None, value: bytes | None) -> TransactionRecord | None:
    """Return the content of a record; None if its key is of a type that is not known, which Kafka skips as well.

    Raises:
        CorruptionError: the record has no key, its value's version or state is not known, or its bytes are malformed.
    """
    if key is None:
        raise CorruptionError("transaction record without a key")
    reader = ValueReader(key)
    if reader.i16() != _KEY_TYPE:
        return None
    transactional_id = reader.string()
    reader.require_end()
    return TransactionRecord(transactional_id, None if value is None else _decode_value(value))


def _decode_value(data: bytes) -> TransactionValue:
    reader = ValueReader(data)
    version = read_version(reader, "transaction", FLEXIBLE_VERSION)
    reader.is_flexible = version >= FLEXIBLE_VERSION
    producer_id, producer_epoch, timeout_ms, status = reader.i64(), reader.i16(), reader.i32(), reader.i8()
    if not TransactionStatus.EMPTY <= status <= TransactionStatus.COMPLETE_ABORT:
        raise CorruptionError(f"a transactional id is in state {status}, which is never written")
    count = reader.nullable_count()
    partitions = None if count is None else tuple(_read_topic(reader) for _ in range(count))
    last_update_ms, start_ms = reader.i64(), reader.i64()
    tags = reader.tags()
    reader.require_end()
    return TransactionValue(
        producer_id,
        producer_epoch,
        timeout_ms,
        TransactionStatus(status),
        partitions,
        last_update_ms,
        start_ms,
        previous_producer_id=_read_tag(tags, _PREVIOUS_PRODUCER_ID_TAG, _I64, NO_PRODUCER_ID),
        next_producer_id=_read_tag(tags, _NEXT_PRODUCER_ID_TAG, _I64, NO_PRODUCER_ID),
        client_version=_read_tag(tags, _CLIENT_VERSION_TAG, _I16, 0),
    )


def _read_topic(reader: ValueReader) -> PartitionsOfTopic:
    topic = PartitionsOfTopic(reader.string(), tuple(reader.i32() for _ in range(reader.count())))
    reader.tags()
    return topic


def _read_tag(tags: dict[int, bytes], tag: int, format_: struct.Struct, default: int) -> int:
    data = tags.get(tag)
    if data is None:
        return default
    if len(data) != format_.size:
        raise CorruptionError(f"tagged field {tag} has {len(data)} bytes instead of {format_.size}")
    return int(format_.unpack(data)[0])


def _encode_tags(value: TransactionValue) -> bytes:
    present = []
    if value.previous_producer_id != NO_PRODUCER_ID:
        present.append(_TAGGED_I64.pack(_PREVIOUS_PRODUCER_ID_TAG, _I64.size, value.previous_producer_id))
    if value.next_producer_id != NO_PRODUCER_ID:
        present.append(_TAGGED_I64.pack(_NEXT_PRODUCER_ID_TAG, _I64.size, value.next_producer_id))
    if value.client_version:
        present.append(_TAGGED_I16.pack(_CLIENT_VERSION_TAG, _I16.size, value.client_version))
    return b"".join((bytes((len(present),)), *present))


def _count(count: int, is_flexible: bool) -> bytes:
    return encode_unsigned_varint(count + 1) if is_flexible else _I32.pack(count)
