"""Records of consumer groups (KIP-848) as key and value of a log record: types 3 to 8 and 16 of Kafka's ``GroupCoordinatorRecordSerde``.

Keys are plain, values flexible; all are of version 0, and what came later stands in tagged fields. The bytes are those of Kafka 4.3.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.assignment_fields import (
    NO_TAGS,
    decode_target,
    decode_target_epoch,
    encode_array,
    encode_i32s,
    encode_tagged,
    encode_tagged_i64,
    encode_target,
    encode_target_epoch,
    partitions_by_topic,
    read_tagged_i64,
    read_topic_id,
)
from esp.schemas.consumer_group_records import (
    NO_EPOCH,
    NO_METADATA_HASH,
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
    Value,
)
from esp.schemas.keyed_values import (
    ValueReader,
    encode_compact_bytes,
    encode_compact_string,
    encode_nullable_compact_string,
    encode_string,
    read_version,
)

_Type = ConsumerGroupRecordType
_NAMED: Final = frozenset((_Type.MEMBER, _Type.TARGET, _Type.CURRENT, _Type.REGEX))
"""The types whose keys name a member, or a regular expression."""

_VERSION: Final = b"\x00\x00"
_ABSENT: Final = b"\x00"
_PRESENT: Final = b"\x01"
_ONLY_TAG: Final = 0
"""The one tagged field that some of the values have."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_EPOCHS_AND_STATE: Final = struct.Struct(">iib")
_TWO_I64: Final = struct.Struct(">qq")


def encode_consumer_group_key(key: ConsumerGroupKey) -> bytes:
    """The key of a part of a group."""
    name = encode_string(key.name) if key.type in _NAMED else b""
    return _I16.pack(key.type) + encode_string(key.group_id) + name


def encode_consumer_group_value(value: Value) -> bytes:
    """A part of a group."""
    return _VERSION + _ENCODERS[type(value)](value)


def decode_consumer_group_record(key: bytes, value: bytes | None) -> ConsumerGroupRecord | None:
    """Return the content of a record; None if it is of another type.

    Raises:
        CorruptionError: the value's version is not known, the bytes are malformed, or the value is of a type that is only tombstoned.
    """
    reader = ValueReader(key)
    number = reader.i16()
    if number not in _TYPES:
        return None
    type_ = ConsumerGroupRecordType(number)
    group_id = reader.string()
    record_key = ConsumerGroupKey(type_, group_id, reader.string() if type_ in _NAMED else "")
    reader.require_end()
    if type_ is _Type.PARTITION_METADATA or value is None:  # Kafka skips what early releases wrote in the former
        return ConsumerGroupRecord(record_key, None)
    values = ValueReader(value)
    read_version(values, "part of a consumer group", 0)
    values.is_flexible = True
    decoded = _DECODERS[type_](values)
    values.require_end()
    return ConsumerGroupRecord(record_key, decoded)


def _encode_group_epoch(value: GroupEpochValue) -> bytes:
    return _I32.pack(value.epoch) + encode_tagged_i64(value.metadata_hash, NO_METADATA_HASH)


def _decode_group_epoch(reader: ValueReader) -> GroupEpochValue:
    epoch = reader.i32()
    return GroupEpochValue(epoch, read_tagged_i64(reader, NO_METADATA_HASH))


def _encode_member(value: MemberValue) -> bytes:
    return b"".join(
        (
            encode_nullable_compact_string(value.instance_id),
            encode_nullable_compact_string(value.rack_id),
            encode_compact_string(value.client_id),
            encode_compact_string(value.client_host),
            encode_array(map(encode_compact_string, value.topic_names), len(value.topic_names)),
            encode_compact_string(value.topic_regex or ""),
            _I32.pack(value.rebalance_timeout_ms),
            encode_nullable_compact_string(value.assignor),
            encode_tagged(_ABSENT if value.classic is None else _PRESENT + _encode_classic(value.classic)),
        )
    )


def _decode_member(reader: ValueReader) -> MemberValue:
    return MemberValue(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        topic_names=tuple(reader.string() for _ in range(reader.count())),
        topic_regex=reader.nullable_string() or None,
        rebalance_timeout_ms=reader.i32(),
        assignor=reader.nullable_string(),
        classic=_read_classic(reader.tags().get(_ONLY_TAG)),
    )


def _encode_classic(value: ClassicMemberValue) -> bytes:
    protocols = (
        encode_compact_string(protocol.name) + encode_compact_bytes(protocol.metadata) + NO_TAGS
        for protocol in value.protocols
    )
    return _I32.pack(value.session_timeout_ms) + encode_array(protocols, len(value.protocols)) + NO_TAGS


def _read_classic(data: bytes | None) -> ClassicMemberValue | None:
    """A nullable struct in a tagged field: a byte that says whether it is there comes first. Kafka writes the field of all members."""
    if data is None:
        return None
    reader = ValueReader(data)
    reader.is_flexible = True
    if reader.i8() <= 0:
        return None
    session_timeout_ms = reader.i32()
    protocols = []
    for _ in range(reader.count()):
        protocols.append(ClassicProtocol(reader.string(), reader.byte_string()))
        reader.tags()
    reader.tags()
    reader.require_end()
    return ClassicMemberValue(session_timeout_ms, tuple(protocols))


def _encode_current(value: CurrentValue) -> bytes:
    return b"".join(
        (
            _EPOCHS_AND_STATE.pack(value.epoch, value.previous_epoch, value.state),
            _encode_with_epochs(value.assigned),
            _encode_with_epochs(value.pending_revocation),
            NO_TAGS,
        )
    )


def _decode_current(reader: ValueReader) -> CurrentValue:
    epoch, previous_epoch, state = reader.i32(), reader.i32(), reader.i8()
    if state not in _STATES:
        raise CorruptionError(f"a member of a consumer group is in state {state}, which is not known")
    value = CurrentValue(
        epoch, previous_epoch, MemberState(state), _read_with_epochs(reader), _read_with_epochs(reader)
    )
    reader.tags()
    return value


def _encode_with_epochs(partitions: Mapping[TopicIdPartition, int]) -> bytes:
    epochs_of: dict[TopicId, dict[int, int]] = {}
    for (topic_id, number), epoch in partitions.items():
        epochs_of.setdefault(topic_id, {})[number] = epoch
    encoded = []
    for topic_id, numbers in partitions_by_topic(partitions).items():
        of_topic = epochs_of[topic_id]
        epochs = [of_topic[number] for number in numbers]
        tags = NO_TAGS if NO_EPOCH in epochs else encode_tagged(encode_i32s(epochs))
        encoded.append(topic_id.bytes + encode_i32s(numbers) + tags)
    return encode_array(encoded, len(encoded))


def _read_with_epochs(reader: ValueReader) -> dict[TopicIdPartition, int]:
    found: dict[TopicIdPartition, int] = {}
    for _ in range(reader.count()):
        topic_id = read_topic_id(reader)
        numbers = reader.i32s()
        epochs: Sequence[int] = [NO_EPOCH] * len(numbers)
        tagged = reader.tags().get(_ONLY_TAG)
        if tagged is not None:
            inner = ValueReader(tagged)
            inner.is_flexible = True
            epochs = inner.i32s()
            inner.require_end()
        if len(epochs) != len(numbers):
            raise CorruptionError(f"{len(numbers)} partitions have {len(epochs)} assignment epochs")
        found.update(zip([TopicIdPartition(topic_id, number) for number in numbers], epochs, strict=True))
    return found


def _encode_regex(value: RegexValue) -> bytes:
    topics = encode_array(map(encode_compact_string, value.topics), len(value.topics))
    return topics + _TWO_I64.pack(value.version, value.timestamp_ms) + NO_TAGS


def _decode_regex(reader: ValueReader) -> RegexValue:
    topics = tuple(reader.string() for _ in range(reader.count()))
    value = RegexValue(topics, reader.i64(), reader.i64())
    reader.tags()
    return value


_TYPES: Final = frozenset(_Type)
_STATES: Final = frozenset(MemberState)
_ENCODERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    GroupEpochValue: _encode_group_epoch,
    MemberValue: _encode_member,
    TargetEpochValue: encode_target_epoch,
    TargetValue: encode_target,
    CurrentValue: _encode_current,
    RegexValue: _encode_regex,
}
_DECODERS: Final[Mapping[ConsumerGroupRecordType, Callable[[ValueReader], Value]]] = {
    _Type.GROUP_EPOCH: _decode_group_epoch,
    _Type.MEMBER: _decode_member,
    _Type.TARGET_EPOCH: decode_target_epoch,
    _Type.TARGET: decode_target,
    _Type.CURRENT: _decode_current,
    _Type.REGEX: _decode_regex,
}
