"""Produce, the hot request: read without a copy of the records, answered in one go. Versions 3 to 13.

The bytes are those of kio's classes, which is the oracle in tests; field by field they are in Kafka's ``ProduceRequest.json`` and
``ProduceResponse.json``. Almost every request holds one partition, which has a short way of its own through reader and writer. All others
are read and written by generators, which yield after each slice: some clients name thousands of partitions, and any client could.

From version 9 on, successive requests of one client for one partition are the same byte for byte, except for their size, their correlation
id and their records; the answers are the same except for correlation id, offsets and time. Once one such request has been decoded and
answered, the common bytes of the others need not be decoded or encoded again. The common bytes are cut from the answers of this module's
own writer, and the tests compare them with its reader and writer.
"""

import struct
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import (
    I32,
    TOPIC_IDS_FROM,
    NodeEndpoint,
    TopicRef,
    check_size,
    pack_compact_topic,
    pack_legacy_topic,
    pack_node_endpoints,
    pack_nullable_text,
    pack_tagged_fields,
    pack_uvarint,
    read_compact_count,
    read_compact_nullable_text,
    read_compact_text,
    read_legacy_count,
    read_legacy_nullable_text,
    read_legacy_text,
    read_uuid_bytes,
    read_uvarint,
    skip_tagged_fields,
)
from esp.protocol.progress import AT_ONCE_ELEMENTS, Progress, SlicedWork, begin, whole

__all__ = [
    "NodeEndpoint",
    "ProduceRequest",
    "ProduceResult",
    "TopicRef",
    "begin_decoding_produce",
    "decode_produce",
    "encode_produce_response",
    "encode_produce_response_in_slices",
    "read_acks",
]

FLEXIBLE_FROM: Final = 9
LEADERS_FROM: Final = 10
"""The version from which answers name new leaders (KIP-951)."""


class ProduceRequest(NamedTuple):
    """A Produce request: ``partitions`` holds (topic, partition, records) in the order of the request.

    Records are views into the body that was read, writable if that is, or None for a null.
    """

    acks: int
    timeout_ms: int
    transactional_id: str | None
    partitions: list[tuple[TopicRef, int, memoryview | None]]


class ProduceResult(NamedTuple):
    """The answer for one partition. ``error_code`` is 0 where the records were appended.

    ``record_errors`` are pairs of a record's index in the batch and a message, from version 8 on, as is ``error_message``;
    ``leader_id`` and ``leader_epoch`` go with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH, from version 10 on (KIP-951).
    """

    topic: TopicRef
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: Sequence[tuple[int, str | None]] = ()
    leader_id: int = -1
    leader_epoch: int = -1


_I32_I32: Final = struct.Struct(">ii")
_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_LEGACY_START: Final = struct.Struct(">hhiih")
"""Null transactional id, acks, timeout, number of topics, length of the first topic's name."""

_LEGACY_PARTITION: Final = struct.Struct(">iii")
"""Number of partitions, index of the first, size of its records."""

_COMPACT_START: Final = struct.Struct(">BhiBB")
"""The byte before acks, timeout, number of topics, length of the first topic's name; each number one more than it is. The byte is that of a
null transactional id, or the last one of an id."""

_COMPACT_PARTITION: Final = struct.Struct(">Bi")
"""Number of partitions, one more than it is, and index of the first."""


def decode_produce(body: memoryview, version: int) -> ProduceRequest:
    """Read the body of a Produce request. Bytes after the last field are ignored, unknown tagged fields skipped.

    Raises:
        DecodeError: the bytes are no such request, or name more than :data:`esp.protocol.progress.ELEMENTS_MAX` things.
    """
    begun = begin_decoding_produce(body, version)
    return whole(begun) if isinstance(begun, Generator) else begun


def begin_decoding_produce(body: memoryview, version: int) -> ProduceRequest | SlicedWork[ProduceRequest]:
    """Decode like :func:`decode_produce`; of a request that takes more than a slice, return the work that is left after the first one.

    Raises:
        DecodeError: see there; the generator raises it for faults that it finds later.
    """
    try:
        single = _decode_single_legacy(body) if version < FLEXIBLE_FROM else _decode_single_compact(body, version)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _unreadable(error) from error
    if single is not None:
        return single
    return begin(_decode_in_slices(body, version))


def read_acks(body: memoryview, version: int) -> int:
    """The ``acks`` of a request of which at least a slice could be read."""
    read_text = read_legacy_nullable_text if version < FLEXIBLE_FROM else read_compact_nullable_text
    acks: int = _ACKS_TIMEOUT.unpack_from(body, read_text(body, 0)[1])[0]
    return acks


def _decode_in_slices(body: memoryview, version: int) -> SlicedWork[ProduceRequest]:
    try:
        return (yield from _decode_legacy(body) if version < FLEXIBLE_FROM else _decode_compact(body, version))
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise _unreadable(error) from error


def _unreadable(error: Exception) -> DecodeError:
    is_text = isinstance(error, UnicodeDecodeError)
    return DecodeError("Produce: a text is not UTF-8" if is_text else "Produce: the message is truncated")


def _decode_single_legacy(body: memoryview) -> ProduceRequest | None:
    """Read one topic with one partition and no transaction; None if the body is any other."""
    size = len(body)
    if size < 26:
        return None
    transactional, acks, timeout_ms, topics, length = _LEGACY_START.unpack_from(body)
    end = 14 + length
    if transactional != -1 or topics != 1 or length < 0 or end + 12 > size:
        return None
    count, partition, length = _LEGACY_PARTITION.unpack_from(body, end)
    start = end + 12
    if count != 1 or length < 0 or start + length > size:
        return None
    partitions = [(str(body[14:end], "utf-8"), partition, body[start : start + length])]
    return tuple.__new__(ProduceRequest, (acks, timeout_ms, None, partitions))


def _decode_single_compact(body: memoryview, version: int) -> ProduceRequest | None:
    """Read one topic with one partition and no tagged fields; None if the body is any other."""
    transactional_id = None
    start = 0
    if length := body[0]:
        if length >= 0x80:
            return None
        start = length - 1
        transactional_id = str(body[1:length], "utf-8")
    _, acks, timeout_ms, topics, length = _COMPACT_START.unpack_from(body, start)
    topic: TopicRef
    if topics != 2:
        return None
    if version >= TOPIC_IDS_FROM:
        position = start + 24
        topic = bytes(body[start + 8 : position])
    elif 0 < length < 0x80:
        position = start + 8 + length
        topic = str(body[start + 9 : position], "utf-8")
    else:
        return None
    if position + 9 > len(body):
        return None
    partitions, partition = _COMPACT_PARTITION.unpack_from(body, position)
    if partitions != 2:
        return None
    length, position = read_uvarint(body, position + 5)
    end = position + length - 1
    if not length or body[end] or body[end + 1] or body[end + 2]:
        return None
    # Without the constructor's call: this is done for almost every produce request.
    return tuple.__new__(ProduceRequest, (acks, timeout_ms, transactional_id, [(topic, partition, body[position:end])]))


def _decode_legacy(body: memoryview) -> SlicedWork[ProduceRequest]:
    progress = Progress(AT_ONCE_ELEMENTS)
    transactional_id, position = read_legacy_nullable_text(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, position)
    topics, position = read_legacy_count(body, position + 6, 6)
    progress.take(topics)
    partitions: list[tuple[TopicRef, int, memoryview | None]] = []
    for _ in range(topics):
        if progress.count_one():
            yield
        topic, position = read_legacy_text(body, position)
        count, position = read_legacy_count(body, position, 8)
        progress.take(count)
        for _ in range(count):
            if progress.count_one():
                yield
            partition, size = _I32_I32.unpack_from(body, position)
            position += 8
            records = None
            if size != -1:
                check_size(size, body, position)
                records = body[position : position + size]
                position += size
            partitions.append((topic, partition, records))
    return ProduceRequest(acks, timeout_ms, transactional_id, partitions)


def _decode_compact(body: memoryview, version: int) -> SlicedWork[ProduceRequest]:
    progress = Progress(AT_ONCE_ELEMENTS)
    transactional_id, position = read_compact_nullable_text(body, 0)
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(body, position)
    read_topic = read_compact_text if version < TOPIC_IDS_FROM else read_uuid_bytes
    topics, position = read_compact_count(body, position + 6, 3)
    progress.take(topics)
    partitions: list[tuple[TopicRef, int, memoryview | None]] = []
    for _ in range(topics):
        if progress.count_one():
            yield
        topic, position = read_topic(body, position)
        count, position = read_compact_count(body, position, 6)
        progress.take(count)
        for _ in range(count):
            if progress.count_one():
                yield
            partition = I32.unpack_from(body, position)[0]
            size, position = read_uvarint(body, position + 4)
            records = None
            if size:
                check_size(size - 1, body, position)
                records = body[position : position + size - 1]
                position += size - 1
            partitions.append((topic, partition, records))
            position = skip_tagged_fields(body, position)
        position = skip_tagged_fields(body, position)
    skip_tagged_fields(body, position)
    return ProduceRequest(acks, timeout_ms, transactional_id, partitions)


_SINGLE_HEAD: Final = struct.Struct(">iiBBB")
"""Size of the frame, correlation id, no header tags, one topic, length of its name; the counts as compact ones."""

_SINGLE_HEAD_WITH_ID: Final = struct.Struct(">iiBB16s")
"""The fields of ``_SINGLE_HEAD`` with the topic's id in place of its name."""

_SINGLE_TAIL: Final = struct.Struct(">BihqqqBBBBiB")
"""Number of partitions (1), its five numbers, no record errors, no message, no tags of partition and topic, throttle time, no tags."""

_SINGLE_LEGACY_HEAD: Final = struct.Struct(">iiih")
"""Size of the frame, correlation id, number of topics, length of the topic's name."""

_SINGLE_V3_TAIL: Final = struct.Struct(">iihqqi")
_SINGLE_V5_TAIL: Final = struct.Struct(">iihqqqi")
_SINGLE_V8_TAIL: Final = struct.Struct(">iihqqqihi")
"""Number of partitions (1), its numbers, from version 8 on no record errors and no message, throttle time."""

_PLAIN_PARTITION: Final = struct.Struct(">ihqqqBBB")
"""A partition's five numbers, no record errors, no error message, no tags."""

_V3_PARTITION: Final = struct.Struct(">ihqq")
_V5_PARTITION: Final = struct.Struct(">ihqqq")
"""Partition, error code, base offset, log append time and, in the second, log start offset."""


def encode_produce_response(
    version: int,
    correlation_id: int,
    results: Sequence[ProduceResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The whole frame of a response, length included. Results of one topic stand one after another in ``results``."""
    if len(results) == 1 and not node_endpoints:
        encode_single = _encode_single_compact if version >= FLEXIBLE_FROM else _encode_single_legacy
        frame = encode_single(version, correlation_id, results[0], throttle_ms)
        if frame is not None:
            return frame
    return whole(encode_produce_response_in_slices(version, correlation_id, results, throttle_ms, node_endpoints))


def encode_produce_response_in_slices(
    version: int,
    correlation_id: int,
    results: Sequence[ProduceResult],
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> SlicedWork[bytes]:
    """Encode a response like :func:`encode_produce_response`, yielding after each slice. Returns the frame."""
    if version >= FLEXIBLE_FROM:
        return _encode_compact(version, correlation_id, results, throttle_ms, node_endpoints)
    return _encode_legacy(version, correlation_id, results, throttle_ms)


def _encode_single_compact(version: int, correlation_id: int, result: ProduceResult, throttle_ms: int) -> bytes | None:
    """Encode the response for one partition without texts and tags; None if the result has any."""
    topic, partition, error, offset, time_ms, start, message, record_errors, leader_id, leader_epoch = result
    if message is not None or record_errors or leader_id != -1 or leader_epoch != -1:
        return None
    tail = _SINGLE_TAIL.pack(2, partition, error, offset, time_ms, start, 1, 0, 0, 0, throttle_ms, 0)
    if version >= TOPIC_IDS_FROM:
        return _SINGLE_HEAD_WITH_ID.pack(_SINGLE_TAIL.size + 22, correlation_id, 0, 2, topic) + tail
    assert isinstance(topic, str)
    name = topic.encode()
    length = len(name)
    if length > 0x7E:
        return None
    return _SINGLE_HEAD.pack(_SINGLE_TAIL.size + 7 + length, correlation_id, 0, 2, length + 1) + name + tail


def _encode_single_legacy(version: int, correlation_id: int, result: ProduceResult, throttle_ms: int) -> bytes | None:
    """Encode the response for one partition without texts; None if the result has any."""
    topic, partition, error, offset, time_ms, start, message, record_errors, _, _ = result
    if message is not None or record_errors:
        return None
    assert isinstance(topic, str)
    name = topic.encode()
    if version >= 8:
        tail = _SINGLE_V8_TAIL.pack(1, partition, error, offset, time_ms, start, 0, -1, throttle_ms)
    elif version >= 5:
        tail = _SINGLE_V5_TAIL.pack(1, partition, error, offset, time_ms, start, throttle_ms)
    else:
        tail = _SINGLE_V3_TAIL.pack(1, partition, error, offset, time_ms, throttle_ms)
    head = _SINGLE_LEGACY_HEAD.pack(len(name) + len(tail) + 10, correlation_id, 1, len(name))
    return head + name + tail


def _encode_compact(
    version: int,
    correlation_id: int,
    results: Sequence[ProduceResult],
    throttle_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> SlicedWork[bytes]:
    progress = Progress()
    parts: list[bytes] = [b"", I32.pack(correlation_id), b"\0", b""]
    topics = 0
    for topic, group in _by_topic(results):
        topics += 1
        parts += (pack_compact_topic(topic), pack_uvarint(len(group) + 1))
        for result in group:
            if progress.count_one():
                yield
            _, partition, error, offset, time_ms, start, message, record_errors, leader_id, leader_epoch = result
            if message is None and not record_errors and leader_id == leader_epoch == -1:
                parts.append(_PLAIN_PARTITION.pack(partition, error, offset, time_ms, start, 1, 0, 0))
                continue
            parts.append(_V5_PARTITION.pack(*result[1:6]))
            parts.append(pack_uvarint(len(result.record_errors) + 1))
            for index, message in result.record_errors:
                parts += (I32.pack(index), pack_nullable_text(message, flexible=True), b"\0")
            parts.append(pack_nullable_text(result.error_message, flexible=True))
            parts.append(_partition_tags(version, result))
        parts.append(b"\0")
    parts[3] = pack_uvarint(topics + 1)
    parts.append(I32.pack(throttle_ms))
    parts.append(pack_node_endpoints(node_endpoints) if version >= LEADERS_FROM else b"\0")
    parts[0] = I32.pack(sum(map(len, parts)))
    return b"".join(parts)


def _partition_tags(version: int, result: ProduceResult) -> bytes:
    """The current leader, where there is something to say of it."""
    if version < LEADERS_FROM or (result.leader_id == -1 and result.leader_epoch == -1):
        return b"\0"
    return pack_tagged_fields([(0, _I32_I32.pack(result.leader_id, result.leader_epoch) + b"\0")])


def _encode_legacy(
    version: int, correlation_id: int, results: Sequence[ProduceResult], throttle_ms: int
) -> SlicedWork[bytes]:
    progress = Progress()
    parts: list[bytes] = [b"", I32.pack(correlation_id), b""]
    topics = 0
    for topic, group in _by_topic(results):
        topics += 1
        parts += (pack_legacy_topic(topic), I32.pack(len(group)))
        for result in group:
            if progress.count_one():
                yield
            parts.append(_V5_PARTITION.pack(*result[1:6]) if version >= 5 else _V3_PARTITION.pack(*result[1:5]))
            if version >= 8:
                parts.append(I32.pack(len(result.record_errors)))
                for index, message in result.record_errors:
                    parts += (I32.pack(index), pack_nullable_text(message, flexible=False))
                parts.append(pack_nullable_text(result.error_message, flexible=False))
    parts[2] = I32.pack(topics)
    parts.append(I32.pack(throttle_ms))
    parts[0] = I32.pack(sum(map(len, parts)))
    return b"".join(parts)


def _by_topic(results: Sequence[ProduceResult]) -> Iterator[tuple[TopicRef, Sequence[ProduceResult]]]:
    """Runs of results of the same topic."""
    start = 0
    while start < len(results):
        topic = results[start].topic
        end = start + 1
        while end < len(results) and results[end].topic == topic:
            end += 1
        yield topic, results[start:end]
        start = end


COMMON_OFFSET: Final = 12
"""The position in a frame, its length included, at which the common bytes begin: behind API key and version, and correlation id."""

NO_TAGS: Final[Buffer] = b"\0\0\0"
"""The bytes behind the records of a request's only partition: the tagged fields of partition, topic and request."""

_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_REPEATED_ACKS_TIMEOUT: Final = struct.Struct(">hiB")
"""Acks, timeout, one topic."""

_PARTITION: Final = struct.Struct(">Bi")
_NUMBERS_SIZE: Final = 24
_TAIL_SIZE: Final = 9
"""Behind base offset, log append time and log start offset: no errors of records, no message, no tags, no throttle time."""


def header_rest_size(client_id: str | None) -> int:
    """The size of the rest of the header, with which the common bytes begin: the client id, and no tagged fields."""
    return _CLIENT_ID_LENGTH.size + len((client_id or "").encode()) + 1


def pack_client(client_id: str | None, transactional_id: str | None, acks: int, timeout_ms: int) -> bytes:
    """The common bytes up to the topic: rest of the header without tagged fields, transactional id, ``acks``, ``timeout_ms``, one topic."""
    name = b"" if client_id is None else client_id.encode()
    length = _CLIENT_ID_LENGTH.pack(-1 if client_id is None else len(name))
    transaction = pack_nullable_text(transactional_id, flexible=True)
    return length + name + b"\0" + transaction + _REPEATED_ACKS_TIMEOUT.pack(acks, timeout_ms, 2)


def pack_partition(topic: TopicRef, partition: int) -> bytes:
    """The common bytes from the topic to the partition's number; the size of the records follows, and the records."""
    return pack_compact_topic(topic) + _PARTITION.pack(2, partition)


class RepeatedAnswer:
    """The answer for one partition that took the records.

    Args:
        version: the version of the request.
        topic: as the request names it.
        partition: its number.
    """

    __slots__ = ("_middle", "_pack", "_size", "_tail")

    def __init__(self, version: int, topic: TopicRef, partition: int) -> None:
        frame = encode_produce_response(version, 0, [ProduceResult(topic, partition, 0, 0)])
        numbers = len(frame) - _TAIL_SIZE - _NUMBERS_SIZE
        self._size = frame[:4]
        self._middle = frame[8:numbers]
        self._tail = frame[-_TAIL_SIZE:]
        self._pack = struct.Struct(f">4si{numbers - 8}sqqq{_TAIL_SIZE}s").pack

    def encode(self, correlation_id: int, base_offset: int, log_append_time_ms: int, log_start_offset: int) -> bytes:
        """The whole frame, length included, equal to the result of ``encode_produce_response`` for the same numbers."""
        return self._pack(
            self._size, correlation_id, self._middle, base_offset, log_append_time_ms, log_start_offset, self._tail
        )
