"""Fetch, the hot read path: requests read into plain tuples, answers written around records that pass through as is. Versions 4 to 18.

The bytes are those of kio's classes, which is the oracle in tests; field by field they are in Kafka's ``FetchRequest.json`` and
``FetchResponse.json``. An answer is a list of buffers: the records as they were given, and the bytes between them. Reader and writer are
generators, which yield after each slice: some clients name thousands of partitions, and any client could. The session ids and epochs by
which requests and answers refer to an incremental fetch session (KIP-227: Kafka's FetchMetadata) are here too.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import (
    I32,
    TOPIC_IDS_FROM,
    NodeEndpoint,
    TopicRef,
    pack_compact_topic,
    pack_legacy_topic,
    pack_node_endpoints,
    pack_tagged_fields,
    pack_uvarint,
    read_compact_count,
    read_compact_nullable_text,
    read_compact_text,
    read_legacy_count,
    read_legacy_text,
    read_tagged_field,
    read_tagged_field_count,
    read_uuid_bytes,
    skip_tagged_fields,
)
from esp.protocol.progress import AT_ONCE_ELEMENTS, Progress, SlicedWork, whole

NO_SESSION: Final = 0
"""Session id of a client that has none."""

INITIAL_EPOCH: Final = 0
"""Epoch of a full request that wants a session."""

FINAL_EPOCH: Final = -1
"""Epoch of a full request that wants none, and ends the one it names."""


__all__ = [
    "TOPIC_IDS_FROM",
    "FetchPartition",
    "FetchRequest",
    "FetchResult",
    "NodeEndpoint",
    "TopicRef",
    "decode_fetch",
    "decode_fetch_in_slices",
    "encode_fetch_response",
    "encode_fetch_response_in_slices",
]

LOG_START_FROM: Final = 5
SESSIONS_FROM: Final = 7
LEADER_EPOCH_FROM: Final = 9
RACK_FROM: Final = 11
FLEXIBLE_FROM: Final = 12
REPLICA_STATE_FROM: Final = 15
NODE_ENDPOINTS_FROM: Final = 16
DIRECTORY_FROM: Final = 17
TOPIC_CHARACTERS_MAX: Final = 8_191
"""The longest name of a topic that is read; topics have names of 249 characters at most. In UTF-8 it has room in answers of all versions: a
session that began by version 12 may go on by an older one."""
HIGH_WATERMARK_FROM: Final = 18

READ_COMMITTED: Final = 1
"""The isolation level of a consumer that wants no records of undecided or aborted transactions."""

NO_HIGH_WATERMARK: Final = 2**63 - 1
"""The value in a request of a replica that does not know the partition's high watermark (KIP-1166)."""

_ZERO_ID: Final = bytes(16)


class FetchPartition(NamedTuple):
    """A partition of a Fetch request; two equal values ask the same.

    The last four are a follower's: the start of its log, the epoch of its last record, the id of its log directory (None if
    not said) and the high watermark that it knows.
    """

    topic: TopicRef
    partition: int
    fetch_offset: int
    partition_max_bytes: int
    current_leader_epoch: int = -1
    log_start_offset: int = -1
    last_fetched_epoch: int = -1
    replica_directory_id: bytes | None = None
    high_watermark: int = NO_HIGH_WATERMARK


class FetchRequest(NamedTuple):
    """A Fetch request. ``replica_id`` is -1 for a consumer. Without sessions, as before version 7, ``session_epoch`` is -1."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    partitions: list[FetchPartition]
    forgotten: list[tuple[TopicRef, int]]
    rack_id: str
    cluster_id: str | None


class FetchResult(NamedTuple):
    """The answer for one partition.

    ``aborted_transactions`` are pairs of producer id and first offset; None, the null that Kafka answers to read_uncommitted, is not the
    same on the wire as none of them. ``diverging_epoch`` is (epoch, end offset), ``current_leader`` (id, epoch), ``snapshot_id`` (end
    offset, epoch): tagged fields, from version 12 on, absent where None.
    """

    topic: TopicRef
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Buffer | None = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None


# Requests -----------------------------------------------------------------------------------------------------------------------

_START: Final = struct.Struct(">iiiib")
"""Replica id, maximal wait, least and most bytes, isolation level."""

_START_WITHOUT_REPLICA: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_V4_PARTITION: Final = struct.Struct(">iqi")
"""Partition, offset, most bytes."""

_V5_PARTITION: Final = struct.Struct(">iqqi")
"""Partition, offset, log start, most bytes."""

_V9_PARTITION: Final = struct.Struct(">iiqqi")
"""Partition, leader epoch, offset, log start, most bytes."""

_V12_PARTITION: Final = struct.Struct(">iiqiqi")
"""Partition, leader epoch, offset, last fetched epoch, log start, most bytes."""

_USUAL_END_MAX: Final = 64
"""Bytes behind the partitions, up to which they are read once only."""

_REPLICA_STATE: Final = struct.Struct(">iq")
_I64: Final = struct.Struct(">q")


def decode_fetch(body: memoryview, version: int) -> FetchRequest:
    """Read the body of a Fetch request. Bytes after the last field are ignored, unknown tagged fields skipped.

    Raises:
        DecodeError: the bytes are no such request, or name more than :data:`esp.protocol.progress.ELEMENTS_MAX` things.
    """
    return whole(decode_fetch_in_slices(body, version))


def decode_fetch_in_slices(body: memoryview, version: int) -> SlicedWork[FetchRequest]:
    """Decode a request like :func:`decode_fetch`, yielding after each slice; the first one is large. Returns the request."""
    try:
        return (yield from _decode_legacy(body, version) if version < FLEXIBLE_FROM else _decode_compact(body, version))
    except (IndexError, struct.error) as error:
        raise DecodeError("Fetch: the message is truncated") from error
    except UnicodeDecodeError as error:
        raise DecodeError("Fetch: a text is not UTF-8") from error


def _decode_legacy(body: memoryview, version: int) -> SlicedWork[FetchRequest]:
    progress = Progress(AT_ONCE_ELEMENTS)
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _START.unpack_from(body)
    position = _START.size
    session_id, session_epoch = 0, -1
    if version >= SESSIONS_FROM:
        session_id, session_epoch = _SESSION.unpack_from(body, position)
        position += _SESSION.size
    layout = (
        _V9_PARTITION if version >= LEADER_EPOCH_FROM else _V5_PARTITION if version >= LOG_START_FROM else _V4_PARTITION
    )
    topics, position = read_legacy_count(body, position, 6)
    progress.take(topics)
    partitions: list[FetchPartition] = []
    for _ in range(topics):
        if progress.count_one():
            yield
        topic, position = read_legacy_text(body, position)
        count, position = read_legacy_count(body, position, layout.size)
        progress.take(count)
        end = position + count * layout.size
        for fields in layout.iter_unpack(body[position:end]):
            if progress.count_one():
                yield
            if version >= LEADER_EPOCH_FROM:
                partition, leader_epoch, offset, log_start, partition_max_bytes = fields
            elif version >= LOG_START_FROM:
                partition, offset, log_start, partition_max_bytes = fields
                leader_epoch = -1
            else:
                partition, offset, partition_max_bytes = fields
                leader_epoch = log_start = -1
            partitions.append(FetchPartition(topic, partition, offset, partition_max_bytes, leader_epoch, log_start))
        position = end
    forgotten: list[tuple[TopicRef, int]] = []
    if version >= SESSIONS_FROM:
        topics, position = read_legacy_count(body, position, 6)
        progress.take(topics)
        for _ in range(topics):
            if progress.count_one():
                yield
            topic, position = read_legacy_text(body, position)
            count, position = read_legacy_count(body, position, 4)
            progress.take(count)
            for _ in range(count):
                if progress.count_one():
                    yield
                forgotten.append((topic, I32.unpack_from(body, position)[0]))
                position += 4
    rack_id = read_legacy_text(body, position)[0] if version >= RACK_FROM else ""
    return FetchRequest(
        replica_id,
        -1,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        partitions,
        forgotten,
        rack_id,
        None,
    )


def _decode_compact(body: memoryview, version: int) -> SlicedWork[FetchRequest]:
    progress = Progress(AT_ONCE_ELEMENTS)
    if version >= REPLICA_STATE_FROM:
        replica_id = -1
        max_wait_ms, min_bytes, max_bytes, isolation_level = _START_WITHOUT_REPLICA.unpack_from(body)
        position = _START_WITHOUT_REPLICA.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _START.unpack_from(body)
        position = _START.size
    session_id, session_epoch = _SESSION.unpack_from(body, position)
    read_topic = _read_topic_name if version < TOPIC_IDS_FROM else read_uuid_bytes
    topics, position = read_compact_count(body, position + _SESSION.size, 3)
    progress.take(topics)
    partitions: list[FetchPartition] = []
    for _ in range(topics):
        if progress.count_one():
            yield
        topic, position = read_topic(body, position)
        count, position = read_compact_count(body, position, _V12_PARTITION.size + 1)
        progress.take(count)
        for _ in range(count):
            if progress.count_one():
                yield
            partition, leader_epoch, offset, last_epoch, log_start, most = _V12_PARTITION.unpack_from(body, position)
            position += _V12_PARTITION.size
            wanted = FetchPartition(topic, partition, offset, most, leader_epoch, log_start, last_epoch)
            if body[position]:
                wanted, position = _read_partition_tags(body, position, version, wanted)
            else:
                position += 1
            partitions.append(wanted)
        position = skip_tagged_fields(body, position)
    rest = body[position:]
    if len(rest) <= _USUAL_END_MAX:
        end = _read_usual_end(bytes(rest), version)
    else:
        end = yield from _read_end(bytes(rest), version, progress)
    forgotten, rack_id, cluster_id, state = end
    replica_epoch = -1
    if state is not None:
        replica_id, replica_epoch = state
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        partitions,
        list(forgotten),
        rack_id,
        cluster_id,
    )


_RequestEnd = tuple[tuple[tuple[TopicRef, int], ...], str, str | None, tuple[int, int] | None]
"""The fields behind the partitions: forgotten partitions, rack, cluster id, the replica's id and epoch."""


def _read_topic_name(buffer: Buffer, position: int) -> tuple[str, int]:
    topic, position = read_compact_text(buffer, position)
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise DecodeError(f"Fetch: the name of a topic has {len(topic)} characters")
    return topic, position


def _read_end(body: bytes, version: int, progress: Progress) -> SlicedWork[_RequestEnd]:
    read_topic = read_compact_text if version < TOPIC_IDS_FROM else read_uuid_bytes
    forgotten: list[tuple[TopicRef, int]] = []
    topics, position = read_compact_count(body, 0, 3)
    progress.take(topics)
    for _ in range(topics):
        if progress.count_one():
            yield
        topic, position = read_topic(body, position)
        count, position = read_compact_count(body, position, 4)
        progress.take(count)
        for _ in range(count):
            if progress.count_one():
                yield
            forgotten.append((topic, I32.unpack_from(body, position)[0]))
            position += 4
        position = skip_tagged_fields(body, position)
    rack_id, position = read_compact_text(body, position)
    cluster_id = None
    state = None
    if body[position]:
        cluster_id, state = _read_request_tags(body, position, version)
    return tuple(forgotten), rack_id, cluster_id, state


@lru_cache(maxsize=256)
def _read_usual_end(body: bytes, version: int) -> _RequestEnd:
    """Decode the end of a request. The result is kept: all requests of a client end alike, and mostly with next to nothing."""
    return whole(_read_end(body, version, Progress()))


def _read_partition_tags(
    body: memoryview, position: int, version: int, wanted: FetchPartition
) -> tuple[FetchPartition, int]:
    """A partition's tagged fields: directory id (0), high watermark (1)."""
    count, position = read_tagged_field_count(body, position)
    for _ in range(count):
        tag, start, position = read_tagged_field(body, position)
        if tag == 0 and version >= DIRECTORY_FROM:
            _check_tag(tag, position - start, 16)
            directory_id = bytes(body[start:position])
            wanted = wanted._replace(replica_directory_id=None if directory_id == _ZERO_ID else directory_id)
        elif tag == 1 and version >= HIGH_WATERMARK_FROM:
            _check_tag(tag, position - start, 8)
            wanted = wanted._replace(high_watermark=_I64.unpack_from(body, start)[0])
    return wanted, position


def _read_request_tags(body: Buffer, position: int, version: int) -> tuple[str | None, tuple[int, int] | None]:
    """A request's tagged fields: cluster id (0), the follower's id and epoch (1)."""
    cluster_id: str | None = None
    state: tuple[int, int] | None = None
    count, position = read_tagged_field_count(body, position)
    for _ in range(count):
        tag, start, position = read_tagged_field(body, position)
        if tag == 0:
            cluster_id, end = read_compact_nullable_text(body, start)
            _check_tag(tag, position - start, end - start)
        elif tag == 1 and version >= REPLICA_STATE_FROM:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(body, start)
            state = (replica_id, replica_epoch)
            _check_tag(tag, position, skip_tagged_fields(body, start + _REPLICA_STATE.size))
    return cluster_id, state


def _check_tag(tag: int, said: int, needed: int) -> None:
    if said != needed:
        raise DecodeError(f"Fetch: tagged field {tag} does not have the size that it says")


# Responses ----------------------------------------------------------------------------------------------------------------------

_RESULT_V4: Final = struct.Struct(">ihqq")
_RESULT: Final = struct.Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, and the log start."""

_PLAIN_RESULT: Final = struct.Struct(">ihqqqBi")
"""The fields of ``_RESULT``, then null for the aborted transactions, and the preferred read replica."""

_ABORTED: Final = struct.Struct(">qq")
_EPOCH_OFFSET: Final = struct.Struct(">iqB")
_OFFSET_EPOCH: Final = struct.Struct(">qiB")
_LEADER: Final = struct.Struct(">iiB")
_TWO_I32: Final = struct.Struct(">ii")

_HEAD_V4: Final = struct.Struct(">iiii")
"""Size of the frame, correlation id, throttle time, number of topics."""

_HEAD_V7: Final = struct.Struct(">iiihii")
"""Size of the frame, correlation id, throttle time, error code, session id, number of topics."""

_HEAD_COMPACT: Final = struct.Struct(">iiBihi")
"""Size of the frame, correlation id, no header tags, throttle time, error code, session id."""


def encode_fetch_response(
    version: int,
    correlation_id: int,
    results: Sequence[FetchResult],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> list[Buffer]:
    """The whole frame of a response, length included, as buffers to be written one after another.

    Records are among them as they were given. Results of one topic stand one after another in ``results``.
    """
    return whole(
        encode_fetch_response_in_slices(
            version,
            correlation_id,
            results,
            error_code=error_code,
            session_id=session_id,
            throttle_ms=throttle_ms,
            node_endpoints=node_endpoints,
        )
    )


def encode_fetch_response_in_slices(
    version: int,
    correlation_id: int,
    results: Sequence[FetchResult],
    *,
    error_code: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> SlicedWork[list[Buffer]]:
    """Encode a response like :func:`encode_fetch_response`, yielding after each slice. Returns the buffers."""
    progress = Progress(AT_ONCE_ELEMENTS)
    flexible = version >= FLEXIBLE_FROM
    pack_topic = pack_compact_topic if flexible else pack_legacy_topic
    out: list[Buffer] = []
    small: list[bytes] = []
    topics = 0
    index = 0
    while index < len(results):
        topic = results[index].topic
        end = index + 1
        while end < len(results) and results[end].topic == topic:
            end += 1
        topics += 1
        small.append(pack_topic(topic))
        small.append(pack_uvarint(end - index + 1) if flexible else I32.pack(end - index))
        for result in results[index:end]:
            if progress.count_one():
                yield
            records = result.records
            small.append(_pack_result(version, result))
            if records:
                out.append(b"".join(small))
                out.append(records)
                small = []
            if flexible:
                small.append(_pack_result_tags(result))
        if flexible:
            small.append(b"\0")
        index = end
    if flexible:
        small.append(pack_node_endpoints(node_endpoints) if version >= NODE_ENDPOINTS_FROM else b"\0")
    out.append(b"".join(small))
    size = sum(map(len, out))
    if flexible:
        count = pack_uvarint(topics + 1)
        size += _HEAD_COMPACT.size - 4 + len(count)
        head = _HEAD_COMPACT.pack(size, correlation_id, 0, throttle_ms, error_code, session_id) + count
    elif version >= SESSIONS_FROM:
        size += _HEAD_V7.size - 4
        head = _HEAD_V7.pack(size, correlation_id, throttle_ms, error_code, session_id, topics)
    else:
        head = _HEAD_V4.pack(size + _HEAD_V4.size - 4, correlation_id, throttle_ms, topics)
    out[0] = head + out[0]
    return out


def _pack_result(version: int, result: FetchResult) -> bytes:
    """A partition's fields up to the records, the records' length included."""
    flexible = version >= FLEXIBLE_FROM
    records = result.records
    aborted = result.aborted_transactions
    if flexible:
        size = b"\0" if records is None else pack_uvarint(len(records) + 1)
        if aborted is None:
            return _PLAIN_RESULT.pack(*result[1:6], 0, result.preferred_read_replica) + size
        numbers = _RESULT.pack(*result[1:6])
        transactions = b"".join([_ABORTED.pack(*pair) + b"\0" for pair in aborted])
        return numbers + pack_uvarint(len(aborted) + 1) + transactions + I32.pack(result.preferred_read_replica) + size
    numbers = _RESULT.pack(*result[1:6]) if version >= LOG_START_FROM else _RESULT_V4.pack(*result[1:5])
    length = -1 if records is None else len(records)
    if aborted is not None:
        numbers += I32.pack(len(aborted)) + b"".join([_ABORTED.pack(*pair) for pair in aborted])
    else:
        numbers += b"\xff\xff\xff\xff"
    if version >= RACK_FROM:
        return numbers + _TWO_I32.pack(result.preferred_read_replica, length)
    return numbers + I32.pack(length)


def _pack_result_tags(result: FetchResult) -> bytes:
    """A partition's tagged fields: diverging epoch (0), current leader (1), snapshot (2)."""
    diverging, leader, snapshot = result[9:]
    if diverging is None and leader is None and snapshot is None:
        return b"\0"
    fields: list[tuple[int, bytes]] = []
    if diverging is not None:
        fields.append((0, _EPOCH_OFFSET.pack(*diverging, 0)))
    if leader is not None:
        fields.append((1, _LEADER.pack(*leader, 0)))
    if snapshot is not None:
        fields.append((2, _OFFSET_EPOCH.pack(*snapshot, 0)))
    return pack_tagged_fields(fields)
