"""Records of share groups (KIP-932) as key and value of a log record: types 10 to 15 of Kafka's ``GroupCoordinatorRecordSerde``.

Keys are plain, values flexible; all are of version 0. The bytes are those of Kafka 4.3.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from esp.model.ids import TopicId
from esp.schemas.assignment_fields import (
    NO_TAGS,
    decode_target,
    decode_target_epoch,
    encode_array,
    encode_i32s,
    encode_partitions,
    encode_tagged,
    encode_target,
    encode_target_epoch,
    read_partitions,
    read_topic_id,
)
from esp.schemas.consumer_group_records import GroupEpochValue, TargetEpochValue, TargetValue
from esp.schemas.keyed_values import (
    ValueReader,
    encode_compact_string,
    encode_nullable_compact_string,
    encode_string,
    read_version,
)
from esp.schemas.share_group_records import (
    KnownPartitions,
    ShareCurrentValue,
    ShareGroupKey,
    ShareGroupRecord,
    ShareGroupRecordType,
    ShareMemberValue,
    SharePartitionsValue,
    ShareValue,
)

_Type = ShareGroupRecordType
_TYPES: Final = frozenset(_Type)
_NAMED: Final = frozenset((_Type.MEMBER, _Type.TARGET, _Type.CURRENT))
"""The types whose keys name a member."""

_VERSION: Final = b"\x00\x00"
_FROM_START_TAG: Final = 10000
"""Tagged fields of our own have numbers from here on, which Kafka never comes to."""

_STABLE: Final = 0
"""The state of every member of a share group: it never has to give anything back."""

_I16: Final = struct.Struct(">h")
_EPOCH_AND_HASH: Final = struct.Struct(">iq")
_EPOCHS_AND_STATE: Final = struct.Struct(">iib")

SHARE_GROUP_EPOCH_PREFIX: Final = _I16.pack(ShareGroupRecordType.GROUP_EPOCH)
"""The first bytes of the keys of group epochs."""


def encode_share_group_key(key: ShareGroupKey) -> bytes:
    """The key of a part of a group."""
    name = encode_string(key.name) if key.type in _NAMED else b""
    return _I16.pack(key.type) + encode_string(key.group_id) + name


def encode_share_group_value(value: ShareValue) -> bytes:
    """A part of a group."""
    return _VERSION + _ENCODERS[type(value)](value)


def decode_share_group_record(key: bytes, value: bytes | None) -> ShareGroupRecord | None:
    """Return the content of a record; None if it is of another type.

    Raises:
        CorruptionError: the value's version is not known, or the bytes are malformed.
    """
    reader = ValueReader(key)
    number = reader.i16()
    if number not in _TYPES:
        return None
    type_ = ShareGroupRecordType(number)
    group_id = reader.string()
    record_key = ShareGroupKey(type_, group_id, reader.string() if type_ in _NAMED else "")
    reader.require_end()
    if value is None:
        return ShareGroupRecord(record_key, None)
    values = ValueReader(value)
    read_version(values, "part of a share group", 0)
    values.is_flexible = True
    decoded = _DECODERS[type_](values)
    values.require_end()
    return ShareGroupRecord(record_key, decoded)


def _encode_member(value: ShareMemberValue) -> bytes:
    return b"".join(
        (
            encode_nullable_compact_string(value.rack_id),
            encode_compact_string(value.client_id),
            encode_compact_string(value.client_host),
            encode_array(map(encode_compact_string, value.topic_names), len(value.topic_names)),
            NO_TAGS,
        )
    )


def _decode_member(reader: ValueReader) -> ShareMemberValue:
    value = ShareMemberValue(
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        topic_names=tuple(reader.string() for _ in range(reader.count())),
    )
    reader.tags()
    return value


def _encode_group_epoch(value: GroupEpochValue) -> bytes:
    """Unlike that of consumer groups it has the hash in a field, not in a tagged one."""
    return _EPOCH_AND_HASH.pack(value.epoch, value.metadata_hash) + NO_TAGS


def _decode_group_epoch(reader: ValueReader) -> GroupEpochValue:
    value = GroupEpochValue(reader.i32(), reader.i64())
    reader.tags()
    return value


def _encode_current(value: ShareCurrentValue) -> bytes:
    head = _EPOCHS_AND_STATE.pack(value.epoch, value.previous_epoch, _STABLE)
    return head + encode_partitions(value.assigned) + NO_TAGS


def _decode_current(reader: ValueReader) -> ShareCurrentValue:
    epoch, previous_epoch, _state = reader.i32(), reader.i32(), reader.i8()
    value = ShareCurrentValue(epoch, previous_epoch, read_partitions(reader))
    reader.tags()
    return value


def _encode_partitions(value: SharePartitionsValue) -> bytes:
    deleting = (topic_id.bytes + encode_compact_string(name) + NO_TAGS for topic_id, name in value.deleting.items())
    return b"".join(
        (
            _encode_known(value.initialising),
            _encode_known(value.initialised),
            encode_array(deleting, len(value.deleting)),
            NO_TAGS,
        )
    )


def _encode_known(topics: Mapping[TopicId, KnownPartitions]) -> bytes:
    encoded = (
        topic_id.bytes
        + encode_compact_string(known.topic_name)
        + encode_i32s(sorted(known.partitions))
        + (encode_tagged(encode_i32s(sorted(known.from_start)), _FROM_START_TAG) if known.from_start else NO_TAGS)
        for topic_id, known in topics.items()
    )
    return encode_array(encoded, len(topics))


def _decode_partitions(reader: ValueReader) -> SharePartitionsValue:
    value = SharePartitionsValue(_read_known(reader), _read_known(reader), _read_names(reader))
    reader.tags()
    return value


def _read_known(reader: ValueReader) -> dict[TopicId, KnownPartitions]:
    found: dict[TopicId, KnownPartitions] = {}
    for _ in range(reader.count()):
        topic_id, name, partitions = read_topic_id(reader), reader.string(), _read_i32s(reader)
        tagged = reader.tags().get(_FROM_START_TAG)
        from_start = frozenset[int]()
        if tagged is not None:
            inner = ValueReader(tagged)
            inner.is_flexible = True
            from_start = _read_i32s(inner)
            inner.require_end()
        found[topic_id] = KnownPartitions(name, partitions, from_start)
    return found


def _read_names(reader: ValueReader) -> dict[TopicId, str]:
    found: dict[TopicId, str] = {}
    for _ in range(reader.count()):
        topic_id = read_topic_id(reader)
        found[topic_id] = reader.string()
        reader.tags()
    return found


def _read_i32s(reader: ValueReader) -> frozenset[int]:
    return frozenset(reader.i32() for _ in range(reader.count()))


_ENCODERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    ShareMemberValue: _encode_member,
    GroupEpochValue: _encode_group_epoch,
    TargetEpochValue: encode_target_epoch,
    TargetValue: encode_target,
    ShareCurrentValue: _encode_current,
    SharePartitionsValue: _encode_partitions,
}
_DECODERS: Final[Mapping[ShareGroupRecordType, Callable[[ValueReader], ShareValue]]] = {
    _Type.MEMBER: _decode_member,
    _Type.GROUP_EPOCH: _decode_group_epoch,
    _Type.TARGET_EPOCH: decode_target_epoch,
    _Type.TARGET: decode_target,
    _Type.CURRENT: _decode_current,
    _Type.PARTITIONS: _decode_partitions,
}
