"""Fields that the records of all groups share whose coordinator assigns (KIP-848, KIP-932), in flexible form.

They are lists of partitions by topic, tagged fields of one number, and the values of a target assignment as a whole.
"""

import struct
import uuid
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from esp.model.errors import CorruptionError
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import (
    NO_ASSIGNMENT_TIME_MS,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)
from esp.schemas.keyed_values import ValueReader, encode_unsigned_varint

NO_TAGS: Final = b"\x00"
"""The end of a struct without tagged fields."""

_ONLY_TAG: Final = 0
"""The one tagged field that some of the structs have."""

_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_MASK: Final = (1 << 64) - 1
_NUMBER: Final = attrgetter("int")
"""Topic ids in order: to compare the numbers that they are is far cheaper than to compare them."""


def encode_target_epoch(value: TargetEpochValue) -> bytes:
    """The epoch of a target assignment."""
    return _I32.pack(value.epoch) + encode_tagged_i64(value.timestamp_ms, NO_ASSIGNMENT_TIME_MS)


def decode_target_epoch(reader: ValueReader) -> TargetEpochValue:
    """Read what :func:`encode_target_epoch` writes. Raises CorruptionError, as all that read here."""
    epoch = reader.i32()
    return TargetEpochValue(epoch, read_tagged_i64(reader, NO_ASSIGNMENT_TIME_MS))


def encode_target(value: TargetValue) -> bytes:
    """The target of a member."""
    return encode_partitions(value.partitions) + NO_TAGS


def decode_target(reader: ValueReader) -> TargetValue:
    """Read what :func:`encode_target` writes."""
    value = TargetValue(read_partitions(reader))
    reader.tags()
    return value


def encode_partitions(partitions: Iterable[TopicIdPartition]) -> bytes:
    """Partitions by topic, in order."""
    topics = partitions_by_topic(partitions)
    encoded = (topic_id.bytes + encode_i32s(numbers) + NO_TAGS for topic_id, numbers in topics.items())
    return encode_array(encoded, len(topics))


def read_partitions(reader: ValueReader) -> frozenset[TopicIdPartition]:
    """Read what :func:`encode_partitions` writes, in any order."""
    found: set[TopicIdPartition] = set()
    for _ in range(reader.count()):
        topic_id = read_topic_id(reader)
        found.update([TopicIdPartition(topic_id, number) for number in reader.i32s()])
        reader.tags()
    return frozenset(found)


def partitions_by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, list[int]]:
    """The numbers of partitions by topic, both in order."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, partition in partitions:
        numbers = topics.get(topic_id)
        if numbers is None:
            topics[topic_id] = [partition]
        else:
            numbers.append(partition)
    return {topic_id: sorted(topics[topic_id]) for topic_id in sorted(topics, key=_NUMBER)}


def read_topic_id(reader: ValueReader) -> TopicId:
    """Read the id of a topic."""
    return TopicId(uuid.UUID(int=(reader.i64() & _MASK) << 64 | reader.i64() & _MASK))


def encode_array(elements: Iterable[bytes], count: int) -> bytes:
    """An array of elements that are encoded."""
    return encode_unsigned_varint(count + 1) + b"".join(elements)


def encode_i32s(numbers: list[int]) -> bytes:
    """An array of numbers."""
    return encode_unsigned_varint(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers)


def encode_tagged(data: bytes, tag: int = _ONLY_TAG) -> bytes:
    """The end of a struct with this tagged field alone."""
    return b"\x01" + encode_unsigned_varint(tag) + encode_unsigned_varint(len(data)) + data


def encode_tagged_i64(value: int, default: int) -> bytes:
    """The end of a struct with a number as its tagged field; none where it is the default."""
    return NO_TAGS if value == default else encode_tagged(_I64.pack(value))


def read_tagged_i64(reader: ValueReader, default: int) -> int:
    """Read what :func:`encode_tagged_i64` writes."""
    data = reader.tags().get(_ONLY_TAG)
    if data is None:
        return default
    if len(data) != _I64.size:
        raise CorruptionError(f"a tagged field has {len(data)} bytes instead of {_I64.size}")
    return int(_I64.unpack(data)[0])
