"""Records of groups and of share partitions as Kafka's dump tool writes them: all fields, by the names and in the order of its schemas.

They are read field by field, not by the codecs of :mod:`esp.schemas`, whose values are free of what does not matter to coordinators: the
order of partitions, null in place of nothing, topics without partitions.
"""

import base64
import uuid
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from esp.schemas.keyed_values import ValueReader, read_version

_Read = Callable[[ValueReader], object]
_Fields = tuple[tuple[str, _Read], ...]


class KeyedRecord(NamedTuple):
    """A key and its value; without a value the key is gone."""

    key: Mapping[str, object]
    payload: Mapping[str, object] | None


class _Tagged(NamedTuple):
    """The one tagged field that a struct may have. It is told if it is not the default, as Kafka tells it."""

    name: str
    read: _Read
    default: object = None
    before: str = ""
    """The field that it stands before in Kafka's schema; empty: it is the last one."""


class _Shape(NamedTuple):
    """The fields of a type of records, or of a struct within them."""

    fields: _Fields
    tagged: _Tagged | None = None


class _Type(NamedTuple):
    key: _Fields
    value: _Shape


def describe_group_record(key: bytes, value: bytes | None) -> KeyedRecord | None:
    """A record in ``__consumer_offsets`` of a consumer group or a share group; None if it is of another type.

    Raises:
        CorruptionError: the value's version is not known, or the bytes are malformed.
    """
    return _describe(_GROUP_TYPES, "part of a group", key, value)


def describe_share_state_record(key: bytes, value: bytes | None) -> KeyedRecord | None:
    """A record in ``__share_group_state``; None if it is of another type.

    Raises:
        CorruptionError: as :func:`describe_group_record`.
    """
    return _describe(_SHARE_STATE_TYPES, "state of a share partition", key, value)


def _describe(types: Mapping[int, _Type], what: str, key: bytes, value: bytes | None) -> KeyedRecord | None:
    keys = ValueReader(key)
    number = keys.i16()
    type_ = types.get(number)
    if type_ is None:
        return None
    told_key = {"type": str(number), "data": {name: read(keys) for name, read in type_.key}}
    keys.require_end()
    if value is None:
        return KeyedRecord(told_key, None)
    values = ValueReader(value)
    version = read_version(values, what, 0)
    values.is_flexible = True
    data = _read_struct(type_.value, values)
    values.require_end()
    return KeyedRecord(told_key, {"version": str(version), "data": data})


def _read_struct(shape: _Shape, reader: ValueReader) -> dict[str, object]:
    told = {name: read(reader) for name, read in shape.fields}
    tagged, data = shape.tagged, reader.tags().get(_ONLY_TAG)
    if tagged is not None and data is not None:
        inner = ValueReader(data)
        inner.is_flexible = True
        value = tagged.read(inner)
        inner.require_end()
        if value != tagged.default:
            return _inserted(told, tagged, value)
    return told


def _inserted(told: dict[str, object], tagged: _Tagged, value: object) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, other in told.items():
        if name == tagged.before:
            found[tagged.name] = value
        found[name] = other
    found.setdefault(tagged.name, value)
    return found


def _array(read: _Read) -> _Read:
    return lambda reader: [read(reader) for _ in range(reader.count())]


def _structs(*fields: tuple[str, _Read], tagged: _Tagged | None = None) -> _Read:
    shape = _Shape(fields, tagged)
    return _array(lambda reader: _read_struct(shape, reader))


def _topic_id(reader: ValueReader) -> str:
    data = b"".join(reader.i64().to_bytes(8, "big", signed=True) for _ in range(2))
    return base64.urlsafe_b64encode(uuid.UUID(bytes=data).bytes).decode().rstrip("=")


def _bytes(reader: ValueReader) -> str:
    return base64.b64encode(reader.byte_string()).decode()


def _classic_member(reader: ValueReader) -> object:
    """A struct that may be null: a byte before it says whether it is there."""
    if reader.i8() <= 0:
        return None
    protocols = _structs(("name", ValueReader.string), ("metadata", _bytes))
    return _read_struct(_Shape((("sessionTimeoutMs", ValueReader.i32), ("supportedProtocols", protocols))), reader)


_ONLY_TAG: Final = 0
_NO_CLASSIC_MEMBER: Final = {"sessionTimeoutMs": 0, "supportedProtocols": []}
"""Kafka's default, which is not null: so null is written, and shown."""

_strings: Final = _array(ValueReader.string)
_i32s: Final = _array(ValueReader.i32)

_GROUP: Final = (("groupId", ValueReader.string),)
_MEMBER: Final = (*_GROUP, ("memberId", ValueReader.string))
_TOPIC_PARTITIONS: Final = (("topicId", _topic_id), ("partitions", _i32s))
_WITH_EPOCHS: Final = _structs(*_TOPIC_PARTITIONS, tagged=_Tagged("assignmentEpochs", _i32s))
_NAMED_PARTITIONS: Final = _structs(("topicId", _topic_id), ("topicName", ValueReader.string), ("partitions", _i32s))
_EPOCHS_AND_STATE: Final = (
    ("memberEpoch", ValueReader.i32),
    ("previousMemberEpoch", ValueReader.i32),
    ("state", ValueReader.i8),
)
_TARGET_EPOCH: Final = _Shape(
    (("assignmentEpoch", ValueReader.i32),), _Tagged("assignmentTimestamp", ValueReader.i64, 0)
)
_TARGET: Final = _Shape((("topicPartitions", _structs(*_TOPIC_PARTITIONS)),))

_GROUP_TYPES: Final[Mapping[int, _Type]] = {
    3: _Type(_GROUP, _Shape((("epoch", ValueReader.i32),), _Tagged("metadataHash", ValueReader.i64, 0))),
    5: _Type(
        _MEMBER,
        _Shape(
            (
                ("instanceId", ValueReader.nullable_string),
                ("rackId", ValueReader.nullable_string),
                ("clientId", ValueReader.string),
                ("clientHost", ValueReader.string),
                ("subscribedTopicNames", _strings),
                ("subscribedTopicRegex", ValueReader.nullable_string),
                ("rebalanceTimeoutMs", ValueReader.i32),
                ("serverAssignor", ValueReader.nullable_string),
            ),
            _Tagged("classicMemberMetadata", _classic_member, _NO_CLASSIC_MEMBER),
        ),
    ),
    6: _Type(_GROUP, _TARGET_EPOCH),
    7: _Type(_MEMBER, _TARGET),
    8: _Type(
        _MEMBER,
        _Shape(
            (
                *_EPOCHS_AND_STATE,
                ("assignedPartitions", _WITH_EPOCHS),
                ("partitionsPendingRevocation", _WITH_EPOCHS),
            )
        ),
    ),
    10: _Type(
        _MEMBER,
        _Shape(
            (
                ("rackId", ValueReader.nullable_string),
                ("clientId", ValueReader.string),
                ("clientHost", ValueReader.string),
                ("subscribedTopicNames", _strings),
            )
        ),
    ),
    11: _Type(_GROUP, _Shape((("epoch", ValueReader.i32), ("metadataHash", ValueReader.i64)))),
    12: _Type(_GROUP, _TARGET_EPOCH),
    13: _Type(_MEMBER, _TARGET),
    14: _Type(_MEMBER, _Shape((*_EPOCHS_AND_STATE, ("assignedPartitions", _structs(*_TOPIC_PARTITIONS))))),
    15: _Type(
        _GROUP,
        _Shape(
            (
                ("initializingTopics", _NAMED_PARTITIONS),
                ("initializedTopics", _NAMED_PARTITIONS),
                ("deletingTopics", _structs(("topicId", _topic_id), ("topicName", ValueReader.string))),
            )
        ),
    ),
    16: _Type(
        (*_GROUP, ("regularExpression", ValueReader.string)),
        _Shape((("topics", _strings), ("version", ValueReader.i64), ("timestamp", ValueReader.i64))),
    ),
}

_SHARE_PARTITION: Final = (*_GROUP, ("topicId", _topic_id), ("partition", ValueReader.i32))
_BATCHES: Final = _structs(
    ("firstOffset", ValueReader.i64),
    ("lastOffset", ValueReader.i64),
    ("deliveryState", ValueReader.i8),
    ("deliveryCount", ValueReader.i16),
)
_COMPLETE_COUNT: Final = _Tagged("deliveryCompleteCount", ValueReader.i32, -1, before="stateBatches")

_SHARE_STATE_TYPES: Final[Mapping[int, _Type]] = {
    0: _Type(
        _SHARE_PARTITION,
        _Shape(
            (
                ("snapshotEpoch", ValueReader.i32),
                ("stateEpoch", ValueReader.i32),
                ("leaderEpoch", ValueReader.i32),
                ("startOffset", ValueReader.i64),
                ("createTimestamp", ValueReader.i64),
                ("writeTimestamp", ValueReader.i64),
                ("stateBatches", _BATCHES),
            ),
            _COMPLETE_COUNT._replace(before="createTimestamp"),
        ),
    ),
    1: _Type(
        _SHARE_PARTITION,
        _Shape(
            (
                ("snapshotEpoch", ValueReader.i32),
                ("leaderEpoch", ValueReader.i32),
                ("startOffset", ValueReader.i64),
                ("stateBatches", _BATCHES),
            ),
            _COMPLETE_COUNT,
        ),
    ),
}
