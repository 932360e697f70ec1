"""Records of ``__consumer_offsets`` as key and value of a log record: Kafka's ``GroupCoordinatorRecordSerde``.

A key is its type and its fields, a value its version and its fields. All versions that Kafka 4.3 reads are read; the versions written are
those of Kafka 4.3. Values are flexible from version 4 on. Commits are written by the thousand, so their bytes are put together by hand;
values are read in plain or in flexible form, field by field.
"""

import struct
import uuid
from functools import lru_cache
from typing import Final

from esp.model.errors import CorruptionError
from esp.schemas.group_records import (
    NO_TIMEOUT,
    NO_TIMESTAMP,
    GroupMember,
    GroupMetadataKey,
    GroupMetadataRecord,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitRecord,
    OffsetCommitValue,
)
from esp.schemas.keyed_values import (
    ValueReader,
    encode_bytes,
    encode_nullable_string,
    encode_string,
    encode_unsigned_varint,
    read_version,
)

STRING_BYTES_MAX: Final = 32_767
"""The longest string, in UTF-8, that keys and values of groups can hold."""

_OFFSET_COMMIT_TYPES: Final = (0, 1)
_OFFSET_COMMIT_TYPE: Final = 1
_GROUP_METADATA_TYPE: Final = 2

_OFFSET_COMMIT_VERSION: Final = 4
_EXPIRING_OFFSET_COMMIT_VERSION: Final = 1
"""The one version that can say when an offset expires; it has no leader epoch."""
_GROUP_METADATA_VERSION: Final = 3
_FLEXIBLE_VERSION: Final = 4

_NO_LEADER_EPOCH: Final = -1
_TOPIC_ID_TAG: Final = 0
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TWO_I32: Final = struct.Struct(">ii")
_TWO_I64: Final = struct.Struct(">qq")
_OFFSET_AND_EPOCH: Final = struct.Struct(">hqi")
_VERSION_AND_OFFSET: Final = struct.Struct(">hq")
_TWO_I16: Final = struct.Struct(">hh")
_PLAIN_COMMIT: Final = struct.Struct(">hqiBqB")
"""Version, offset, leader epoch, size of the metadata and one more, time, number of tagged fields."""

_TOPIC_ID_TAG_AT: Final = _PLAIN_COMMIT.size - 1
_TOPIC_ID_AT: Final = _TOPIC_ID_TAG_AT + 3
_NO_METADATA: Final = 1
_NO_TAGS: Final = b"\x00"
_TOPIC_ID_TAG_HEAD: Final = bytes((1, _TOPIC_ID_TAG, 16))


def encode_offset_commit_key(key: OffsetCommitKey) -> bytes:
    """The key of a committed offset."""
    return b"".join(
        (_I16.pack(_OFFSET_COMMIT_TYPE), encode_string(key.group), encode_string(key.topic), _I32.pack(key.partition))
    )


def encode_offset_commit_value(value: OffsetCommitValue) -> bytes:
    """A committed offset: version 1 if it has a time to expire, and its leader epoch and topic id are lost then, as with Kafka; else 4."""
    if value.expire_timestamp_ms != NO_TIMESTAMP:
        return b"".join(
            (
                _VERSION_AND_OFFSET.pack(_EXPIRING_OFFSET_COMMIT_VERSION, value.offset),
                encode_string(value.metadata),
                _TWO_I64.pack(value.commit_timestamp_ms, value.expire_timestamp_ms),
            )
        )
    metadata = value.metadata.encode()
    tags = _NO_TAGS if value.topic_id is None else _TOPIC_ID_TAG_HEAD + value.topic_id.bytes
    return b"".join(
        (
            _OFFSET_AND_EPOCH.pack(_OFFSET_COMMIT_VERSION, value.offset, value.leader_epoch),
            encode_unsigned_varint(len(metadata) + 1),
            metadata,
            _I64.pack(value.commit_timestamp_ms),
            tags,
        )
    )


def encode_group_metadata_key(key: GroupMetadataKey) -> bytes:
    """The key of a group."""
    return _I16.pack(_GROUP_METADATA_TYPE) + encode_string(key.group)


def encode_group_metadata_value(value: GroupMetadataValue) -> bytes:
    """A group, in version 3."""
    parts = [
        _I16.pack(_GROUP_METADATA_VERSION),
        encode_string(value.protocol_type),
        _I32.pack(value.generation),
        encode_nullable_string(value.protocol),
        encode_nullable_string(value.leader),
        _I64.pack(value.current_state_timestamp_ms),
        _I32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            encode_string(member.member_id),
            encode_nullable_string(member.group_instance_id),
            encode_string(member.client_id),
            encode_string(member.client_host),
            _TWO_I32.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            encode_bytes(member.subscription),
            encode_bytes(member.assignment),
        )
    return b"".join(parts)


def decode_group_record(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """Return the content of a record; None if it is of a type that the classic protocol does not have.

    Raises:
        CorruptionError: the record has no key, its version is not known, or its bytes are malformed.
    """
    if key is None:
        raise CorruptionError("group record without a key")
    commit = None if value is None else _read_plain_commit(key, value)
    if commit is not None:
        return commit
    reader = ValueReader(key)
    type_ = reader.i16()
    if type_ in _OFFSET_COMMIT_TYPES:
        commit_key = OffsetCommitKey(reader.string(), reader.string(), reader.i32())
        reader.require_end()
        return OffsetCommitRecord(commit_key, None if value is None else _decode_offset_commit(value))
    if type_ == _GROUP_METADATA_TYPE:
        group_key = GroupMetadataKey(reader.string())
        reader.require_end()
        return GroupMetadataRecord(group_key, None if value is None else _decode_group_metadata(value))
    return None


def _read_plain_commit(key: bytes, value: bytes) -> OffsetCommitRecord | None:
    """An offset without metadata, as this version writes most; None for all else, which is read field by field.

    A coordinator that takes over reads them by the ten thousand.
    """
    try:
        type_, group_size = _TWO_I16.unpack_from(key)
        topic_at = 4 + group_size
        (topic_size,) = _I16.unpack_from(key, topic_at)
        partition_at = topic_at + 2 + topic_size
        if type_ != _OFFSET_COMMIT_TYPE or min(group_size, topic_size) < 0 or len(key) != partition_at + _I32.size:
            return None
        (partition,) = _I32.unpack_from(key, partition_at)
        version, offset, leader_epoch, metadata_size, commit_timestamp_ms, tags = _PLAIN_COMMIT.unpack_from(value)
        if version != _OFFSET_COMMIT_VERSION or metadata_size != _NO_METADATA:
            return None
        if not tags and len(value) == _PLAIN_COMMIT.size:
            topic_id = None
        elif value[_TOPIC_ID_TAG_AT:_TOPIC_ID_AT] == _TOPIC_ID_TAG_HEAD and len(value) == _TOPIC_ID_AT + 16:
            topic_id = _topic_id(value[_TOPIC_ID_AT:])
        else:
            return None
        return OffsetCommitRecord(
            OffsetCommitKey(key[4:topic_at].decode(), key[topic_at + 2 : partition_at].decode(), partition),
            OffsetCommitValue(offset, leader_epoch, "", commit_timestamp_ms, NO_TIMESTAMP, topic_id),
        )
    except (struct.error, UnicodeDecodeError):
        return None


@lru_cache(maxsize=1_000)
def _topic_id(data: bytes) -> uuid.UUID | None:
    """The topic id of 16 bytes; None for zeros. Of a topic there are many offsets."""
    return uuid.UUID(bytes=data) if any(data) else None


def _decode_offset_commit(data: bytes) -> OffsetCommitValue:
    reader = ValueReader(data)
    version = read_version(reader, "committed offset", _OFFSET_COMMIT_VERSION)
    reader.is_flexible = version >= _FLEXIBLE_VERSION
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else _NO_LEADER_EPOCH
    metadata = reader.string()
    commit_timestamp_ms = reader.i64()
    expire_timestamp_ms = reader.i64() if version == _EXPIRING_OFFSET_COMMIT_VERSION else NO_TIMESTAMP
    topic_id = reader.tags().get(_TOPIC_ID_TAG)
    reader.require_end()
    if topic_id is not None and len(topic_id) != 16:
        raise CorruptionError(f"topic id of {len(topic_id)} bytes")
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=expire_timestamp_ms,
        topic_id=_topic_id(topic_id) if topic_id else None,
    )


def _decode_group_metadata(data: bytes) -> GroupMetadataValue:
    reader = ValueReader(data)
    version = read_version(reader, "group", _FLEXIBLE_VERSION)
    reader.is_flexible = version >= _FLEXIBLE_VERSION
    value = GroupMetadataValue(
        protocol_type=reader.string(),
        generation=reader.i32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        current_state_timestamp_ms=reader.i64() if version >= 2 else NO_TIMESTAMP,
        members=tuple(_read_member(reader, version) for _ in range(reader.count())),
    )
    reader.tags()
    reader.require_end()
    return value


def _read_member(reader: ValueReader, version: int) -> GroupMember:
    member = GroupMember(
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if version >= 3 else None,
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.i32() if version >= 1 else NO_TIMEOUT,
        session_timeout_ms=reader.i32(),
        subscription=reader.byte_string(),
        assignment=reader.byte_string(),
    )
    reader.tags()
    return member
