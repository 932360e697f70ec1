"""The requests of a consumer and their answers, one version of each API: all brokers from Kafka 2.8 on serve them.

kio has these messages too, but its package is more than executors have; and a Fetch answer is not to be copied: records are views of the
received bytes.
"""

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Final, NamedTuple, TypeVar

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import (
    pack_nullable_text,
    pack_uvarint,
    read_compact_count,
    read_compact_nullable_text,
    read_compact_text,
    read_legacy_count,
    read_legacy_nullable_text,
    read_legacy_text,
    read_uuid_bytes,
    skip_tagged_fields,
)

_I8: Final = struct.Struct(">b")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_NO_TAGS: Final = b"\0"
_ZERO_ID: Final = bytes(16)


class Api(NamedTuple):
    """An API in the version that is spoken."""

    key: int
    version: int
    name: str
    is_flexible: bool


FETCH: Final = Api(1, 12, "Fetch", True)
FETCH_BY_ID: Final = Api(1, 13, "Fetch", True)
"""From Kafka 3.1 on: topics have their ids in the place of their names."""
LIST_OFFSETS: Final = Api(2, 7, "ListOffsets", True)
METADATA: Final = Api(3, 12, "Metadata", True)
SASL_HANDSHAKE: Final = Api(17, 1, "SaslHandshake", False)
API_VERSIONS: Final = Api(18, 0, "ApiVersions", False)
SASL_AUTHENTICATE: Final = Api(36, 1, "SaslAuthenticate", False)
NEEDED: Final = (FETCH, LIST_OFFSETS, METADATA)

EARLIEST: Final = -2
LATEST: Final = -1


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"partition {self.number} of topic {self.topic}"


class Broker(NamedTuple):
    """A broker's id and address."""

    node_id: int
    host: str
    port: int


class Leader(NamedTuple):
    """The leader of a partition as one broker knows it: -1 if there is none."""

    node_id: int
    epoch: int


class TopicInfo(NamedTuple):
    """A topic; ``error`` is its error code, in which case it may have no partitions."""

    name: str
    topic_id: bytes
    error: int
    is_internal: bool
    leaders: Mapping[int, Leader]


class ClusterInfo(NamedTuple):
    """An answer to Metadata."""

    brokers: Mapping[int, Broker]
    topics: Mapping[str, TopicInfo]


class FoundOffset(NamedTuple):
    """An answer to ListOffsets for one partition; an offset of -1 if no record is as late."""

    error: int
    offset: int
    timestamp: int


class Wanted(NamedTuple):
    """The question of a Fetch for one partition; with an id of the topic it is one by that."""

    partition: Partition
    offset: int
    leader_epoch: int
    partition_max_bytes: int
    max_bytes: int
    min_bytes: int
    max_wait_ms: int
    is_read_committed: bool
    rack: str
    topic_id: bytes = b""


class Fetched(NamedTuple):
    """The answer to a Fetch.

    Attributes:
        error: the error code.
        high_watermark: the end of what is committed.
        last_stable_offset: the end of what is decided.
        log_start_offset: the first offset that is there; -1 beside some errors.
        aborted: pairs of producer id and first offset.
        memory: a view of the received bytes that begins with the records.
        size: the bytes of the records.
    """

    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Sequence[tuple[int, int]]
    memory: memoryview
    size: int


_Found = TypeVar("_Found")


def checked(decode: Callable[[memoryview], _Found]) -> Callable[[memoryview], _Found]:
    """Have bytes that end too early, or texts that are none, be the one error of bytes that are no message."""

    @wraps(decode)
    def decoded(body: memoryview) -> _Found:
        try:
            return decode(body)
        except (IndexError, struct.error, UnicodeDecodeError) as error:
            raise DecodeError(f"the message is not whole: {error}") from error

    return decoded


def encode_header(api: Api, correlation_id: int, client_id: str) -> bytes:
    """The header of a request."""
    start = struct.pack(">hhi", api.key, api.version, correlation_id) + pack_nullable_text(client_id, flexible=False)
    return start + _NO_TAGS if api.is_flexible else start


def skip_header(api: Api, answer: memoryview) -> memoryview:
    """The body of an answer, whose header begins behind the correlation id."""
    return answer[skip_tagged_fields(answer, 0) :] if api.is_flexible else answer


def encode_metadata(topics: Sequence[str] | None) -> bytes:
    """A question for topics by their names, for all if there are none; no topic is created by it."""
    if topics is None:
        listed = pack_uvarint(0)
    else:
        each = (_ZERO_ID + pack_nullable_text(topic, flexible=True) + _NO_TAGS for topic in topics)
        listed = pack_uvarint(len(topics) + 1) + b"".join(each)
    return listed + b"\0\0" + _NO_TAGS  # no creation, no authorized operations


@checked
def decode_metadata(body: memoryview) -> ClusterInfo:
    """The brokers and topics of an answer.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    count, position = read_compact_count(body, 4, 10)
    brokers: dict[int, Broker] = {}
    for _ in range(count):
        (node_id,) = _I32.unpack_from(body, position)
        host, position = read_compact_text(body, position + 4)
        (port,) = _I32.unpack_from(body, position)
        _, position = read_compact_nullable_text(body, position + 4)
        position = skip_tagged_fields(body, position)
        brokers[node_id] = Broker(node_id, host, port)
    _, position = read_compact_nullable_text(body, position)
    count, position = read_compact_count(body, position + 4, 26)
    topics: dict[str, TopicInfo] = {}
    for _ in range(count):
        (error,) = _I16.unpack_from(body, position)
        name, position = read_compact_nullable_text(body, position + 2)
        topic_id, position = read_uuid_bytes(body, position)
        is_internal = bool(body[position])
        partitions, position = read_compact_count(body, position + 1, 20)
        leaders: dict[int, Leader] = {}
        for _ in range(partitions):
            _, number, leader, epoch = struct.unpack_from(">hiii", body, position)
            position += 14
            for _ in range(3):  # replicas, in-sync and offline ones
                replicas, position = read_compact_count(body, position, 4)
                position += 4 * replicas
            position = skip_tagged_fields(body, position)
            leaders[number] = Leader(leader, epoch)
        position = skip_tagged_fields(body, position + 4)
        if name is not None:
            topics[name] = TopicInfo(name, topic_id, error, is_internal, leaders)
    return ClusterInfo(brokers, topics)


def encode_list_offsets(questions: Mapping[Partition, tuple[int, int]], *, is_read_committed: bool) -> bytes:
    """A question for offsets: by partition the leader epoch, and a timestamp, :data:`EARLIEST` or :data:`LATEST`."""
    parts = [_I32.pack(-1), _I8.pack(is_read_committed)]
    topics = by_topic(questions)
    parts.append(pack_uvarint(len(topics) + 1))
    for topic, partitions in topics.items():
        parts += (pack_nullable_text(topic, flexible=True), pack_uvarint(len(partitions) + 1))
        for partition in partitions:
            epoch, timestamp = questions[partition]
            parts.append(struct.pack(">iiq", partition.number, epoch, timestamp) + _NO_TAGS)
        parts.append(_NO_TAGS)
    parts.append(_NO_TAGS)
    return b"".join(parts)


def by_topic(partitions: Mapping[Partition, object]) -> dict[str, list[Partition]]:
    """The partitions of each topic."""
    topics: dict[str, list[Partition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


@checked
def decode_list_offsets(body: memoryview) -> dict[Partition, FoundOffset]:
    """The offsets that were found.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    found: dict[Partition, FoundOffset] = {}
    topics, position = read_compact_count(body, 4, 3)
    for _ in range(topics):
        topic, position = read_compact_text(body, position)
        partitions, position = read_compact_count(body, position, 27)
        for _ in range(partitions):
            number, error, timestamp, offset, _ = struct.unpack_from(">ihqqi", body, position)
            position = skip_tagged_fields(body, position + 26)
            found[Partition(topic, number)] = FoundOffset(error, offset, timestamp)
        position = skip_tagged_fields(body, position)
    return found


def encode_fetch(wanted: Wanted) -> bytes:
    """A question for the records of one partition, outside of any session: of :data:`FETCH`, or with an id of :data:`FETCH_BY_ID`."""
    return b"".join(
        (
            struct.pack(">iiiib", -1, wanted.max_wait_ms, wanted.min_bytes, wanted.max_bytes, wanted.is_read_committed),
            struct.pack(">ii", 0, -1),  # no session
            pack_uvarint(2),
            wanted.topic_id or pack_nullable_text(wanted.partition.topic, flexible=True),
            pack_uvarint(2),
            struct.pack(
                ">iiqiqi",
                wanted.partition.number,
                wanted.leader_epoch,
                wanted.offset,
                -1,
                -1,
                wanted.partition_max_bytes,
            ),
            _NO_TAGS + _NO_TAGS,
            pack_uvarint(1),  # nothing is forgotten
            pack_nullable_text(wanted.rack, flexible=True),
            _NO_TAGS,
        )
    )


@checked
def decode_fetch(body: memoryview) -> Fetched:
    """Return the answer of :data:`FETCH` for the one partition that was asked for.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    return _decode_fetch(body, read_compact_text)


@checked
def decode_fetch_by_id(body: memoryview) -> Fetched:
    """Return the answer of :data:`FETCH_BY_ID` for the one partition that was asked for.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    return _decode_fetch(body, read_uuid_bytes)


def _decode_fetch(body: memoryview, read_topic: Callable[[memoryview, int], tuple[object, int]]) -> Fetched:
    (error,) = _I16.unpack_from(body, 4)
    topics, position = read_compact_count(body, 10, 3)
    if topics == 0:
        return Fetched(error or -1, -1, -1, -1, (), body, 0)
    _, position = read_topic(body, position)
    partitions, position = read_compact_count(body, position, 37)
    if partitions != 1:
        raise DecodeError(f"Fetch: {partitions} partitions where one was asked for")
    _, partition_error, high_watermark, stable, start = struct.unpack_from(">ihqqq", body, position)
    aborted: list[tuple[int, int]] = []
    count, position = _read_nullable_count(body, position + 30, 17)
    for _ in range(count):
        aborted.append(struct.unpack_from(">qq", body, position))
        position = skip_tagged_fields(body, position + 16)
    size, position = _read_nullable_count(body, position + 4, 1)
    return Fetched(error or partition_error, high_watermark, stable, start, aborted, body[position:], size)


def _read_nullable_count(body: memoryview, position: int, least_element_size: int) -> tuple[int, int]:
    """A count, 0 for null."""
    if not body[position]:
        return 0, position + 1
    return read_compact_count(body, position, least_element_size)


def encode_api_versions() -> bytes:
    """A question for the APIs that a broker serves."""
    return b""


@checked
def decode_api_versions(body: memoryview) -> dict[int, tuple[int, int]]:
    """The least and the greatest version of each API.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    count, position = read_legacy_count(body, 2, 6)
    return {
        key: (least, most) for key, least, most in struct.iter_unpack(">hhh", body[position : position + 6 * count])
    }


def encode_handshake(mechanism: str) -> bytes:
    """The choice of a mechanism."""
    return pack_nullable_text(mechanism, flexible=False)


@checked
def decode_handshake(body: memoryview) -> tuple[int, list[str]]:
    """The error code, and the mechanisms that are served.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    (error,) = _I16.unpack_from(body, 0)
    count, position = read_legacy_count(body, 2, 2)
    mechanisms = []
    for _ in range(count):
        mechanism, position = read_legacy_text(body, position)
        mechanisms.append(mechanism)
    return error, mechanisms


def encode_authenticate(message: Buffer) -> bytes:
    """A message of a log-in."""
    return _I32.pack(len(message)) + bytes(message)


@checked
def decode_authenticate(body: memoryview) -> tuple[int, str | None, bytes]:
    """The error code, its text, and the server's message.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    (error,) = _I16.unpack_from(body, 0)
    text, position = read_legacy_nullable_text(body, 2)
    (size,) = _I32.unpack_from(body, position)
    if size > len(body) - position - 4:
        raise DecodeError(f"SaslAuthenticate: a message of {size} bytes where {len(body) - position - 4} are left")
    return error, text, bytes(body[position + 4 : position + 4 + max(size, 0)])
