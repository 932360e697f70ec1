"""The consumers' own protocol inside the classic one (``ConsumerProtocol``): subscriptions in the metadata of members, and assignments.

Members write both for one another; a coordinator reads them when a group moves to the consumer protocol, and writes assignments itself
while members of both are in one group. Of versions that come later the fields that are known stand first.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from esp.model.errors import CorruptionError
from esp.model.ids import TopicPartition
from esp.schemas.keyed_values import ValueReader, encode_string

_OWNED_FROM: Final = 1
_GENERATION_FROM: Final = 2
_RACK_FROM: Final = 3
_VERSION_MAX: Final = 3

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"


class Subscription(NamedTuple):
    """The wishes of a member, and what it has."""

    topics: tuple[str, ...]
    owned: tuple[TopicPartition, ...]
    """Its partitions; none for a member that gives all back before it joins."""
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    """The partitions that a member was given."""

    partitions: tuple[TopicPartition, ...]
    has_user_data: bool
    """True if its assignor told it something else besides, which only that assignor understands."""


def read_subscription(metadata: bytes) -> Subscription:
    """Read the metadata of a member.

    Raises:
        CorruptionError: it is no subscription.
    """
    reader = ValueReader(metadata)
    version = _read_version(reader)
    topics = tuple(reader.string() for _ in range(reader.count()))
    reader.byte_string()
    owned = _read_partitions(reader) if version >= _OWNED_FROM else ()
    if version >= _GENERATION_FROM:
        reader.i32()
    return Subscription(topics, owned, reader.nullable_string() if version >= _RACK_FROM else None)


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Read an assignment; no bytes at all are one of nothing.

    Raises:
        CorruptionError: it is none.
    """
    if not data:
        return EmbeddedAssignment((), has_user_data=False)
    reader = ValueReader(data)
    _read_version(reader)
    partitions = _read_partitions(reader)
    return EmbeddedAssignment(partitions, has_user_data=bool(reader.byte_string()))


def write_assignment(partitions: Mapping[str, Sequence[int]], metadata: bytes) -> bytes:
    """An assignment of these partitions by topic, in the version of the member's metadata.

    Raises:
        CorruptionError: the metadata is no subscription.
    """
    parts = [_I16.pack(_read_version(ValueReader(metadata))), _I32.pack(len(partitions))]
    for topic, numbers in partitions.items():
        parts += (encode_string(topic), _I32.pack(len(numbers)), *map(_I32.pack, numbers))
    return b"".join((*parts, _NO_USER_DATA))


def _read_version(reader: ValueReader) -> int:
    version = reader.i16()
    if version < 0:
        raise CorruptionError(f"version {version} of the consumers' protocol")
    return min(version, _VERSION_MAX)


def _read_partitions(reader: ValueReader) -> tuple[TopicPartition, ...]:
    found: list[TopicPartition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        found += (TopicPartition(topic, reader.i32()) for _ in range(reader.count()))
    return tuple(found)
