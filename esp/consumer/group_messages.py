"""The requests about a group's offsets and their answers, one version of each API, as in :mod:`esp.consumer.messages`."""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from esp.consumer.messages import Api, Partition, by_topic, checked
from esp.protocol.primitives import (
    pack_nullable_text,
    pack_uvarint,
    read_compact_count,
    read_compact_nullable_text,
    read_compact_text,
    skip_tagged_fields,
)

OFFSET_COMMIT: Final = Api(8, 8, "OffsetCommit", True)
OFFSET_FETCH: Final = Api(9, 7, "OffsetFetch", True)
FIND_COORDINATOR: Final = Api(10, 3, "FindCoordinator", True)

_GROUP: Final = b"\0"
_TRANSACTIONAL_ID: Final = b"\1"
_NO_TAGS: Final = b"\0"
_NO_PARTITIONS: Final = b"\0"
"""A null array: all partitions are asked for."""
_NO_GENERATION: Final = -1
_NO_EPOCH: Final = -1


class Coordinator(NamedTuple):
    """Where the coordinator of a group is; beside an error nothing else counts."""

    error: int
    host: str
    port: int


class Committed(NamedTuple):
    """An offset that a group has committed, and what it wrote beside it. The offset is -1 if there is none."""

    offset: int
    metadata: str = ""


class FetchedOffsets(NamedTuple):
    """The offsets of a group, with the error of the whole answer and those of partitions."""

    error: int
    errors: Mapping[Partition, int]
    offsets: Mapping[Partition, Committed]


def encode_find_coordinator(key: str, *, is_transactional_id: bool = False) -> bytes:
    """A question for the coordinator of a group, or of a transactional id."""
    return pack_nullable_text(key, flexible=True) + (_TRANSACTIONAL_ID if is_transactional_id else _GROUP) + _NO_TAGS


@checked
def decode_find_coordinator(body: memoryview) -> Coordinator:
    """The coordinator of an answer.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    (error,) = struct.unpack_from(">h", body, 4)
    _, position = read_compact_nullable_text(body, 6)
    host, position = read_compact_text(body, position + 4)
    (port,) = struct.unpack_from(">i", body, position)
    return Coordinator(error, host, port)


def encode_offset_commit(group: str, offsets: Mapping[Partition, Committed]) -> bytes:
    """Offsets of a group that has no members."""
    generation = struct.pack(">i", _NO_GENERATION)
    return pack_nullable_text(group, flexible=True) + generation + encode_offsets(offsets)


def encode_offsets(offsets: Mapping[Partition, Committed]) -> bytes:
    """The last fields of a request that commits offsets of a group without members, in a transaction or not: from the member on."""
    topics = by_topic(offsets)
    parts = [
        pack_nullable_text("", flexible=True),
        pack_nullable_text(None, flexible=True),
        pack_uvarint(len(topics) + 1),
    ]
    for topic, partitions in topics.items():
        parts += (pack_nullable_text(topic, flexible=True), pack_uvarint(len(partitions) + 1))
        for partition in partitions:
            offset, metadata = offsets[partition]
            parts += (
                struct.pack(">iqi", partition.number, offset, _NO_EPOCH),
                pack_nullable_text(metadata, flexible=True),
                _NO_TAGS,
            )
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


@checked
def decode_errors(body: memoryview) -> dict[Partition, int]:
    """The error code of each partition, of answers that have nothing else: to commits of offsets, and to AddPartitionsToTxn.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    errors: dict[Partition, int] = {}
    topics, position = read_compact_count(body, 4, 3)
    for _ in range(topics):
        topic, position = read_compact_text(body, position)
        partitions, position = read_compact_count(body, position, 7)
        for _ in range(partitions):
            number, error = struct.unpack_from(">ih", body, position)
            position = skip_tagged_fields(body, position + 6)
            errors[Partition(topic, number)] = error
        position = skip_tagged_fields(body, position)
    return errors


def encode_partitions(partitions: Sequence[Partition]) -> bytes:
    """Partitions by topic, as a field of a request."""
    topics = by_topic(dict.fromkeys(partitions))
    parts = [pack_uvarint(len(topics) + 1)]
    for topic, some in topics.items():
        numbers = b"".join(struct.pack(">i", partition.number) for partition in some)
        parts += (pack_nullable_text(topic, flexible=True), pack_uvarint(len(some) + 1), numbers, _NO_TAGS)
    return b"".join(parts)


def encode_offset_fetch(group: str, partitions: Sequence[Partition] | None) -> bytes:
    """A question for the offsets of a group, of all partitions without any given, behind all transactions that change them."""
    wanted = _NO_PARTITIONS if partitions is None else encode_partitions(partitions)
    return pack_nullable_text(group, flexible=True) + wanted + b"\1" + _NO_TAGS


@checked
def decode_offset_fetch(body: memoryview) -> FetchedOffsets:
    """The offsets of an answer.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    errors: dict[Partition, int] = {}
    offsets: dict[Partition, Committed] = {}
    topics, position = read_compact_count(body, 4, 3)
    for _ in range(topics):
        topic, position = read_compact_text(body, position)
        partitions, position = read_compact_count(body, position, 20)
        for _ in range(partitions):
            number, offset, _ = struct.unpack_from(">iqi", body, position)
            metadata, position = read_compact_nullable_text(body, position + 16)
            (error,) = struct.unpack_from(">h", body, position)
            position = skip_tagged_fields(body, position + 2)
            errors[Partition(topic, number)] = error
            offsets[Partition(topic, number)] = Committed(offset, metadata or "")
        position = skip_tagged_fields(body, position)
    (error,) = struct.unpack_from(">h", body, position)
    return FetchedOffsets(error, errors, offsets)
