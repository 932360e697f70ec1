"""Fetch as a follower speaks it, version 17: requests written from plain tuples, answers read with their records as views.

The other side of :mod:`esp.protocol.fetch_codec`; the bytes are those of kio's classes, which is the oracle in tests. Every count and
length of an answer is compared with the bytes that are there: a leader may be of another release, or no leader at all.
"""

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.fetch_codec import FetchPartition
from esp.protocol.primitives import (
    I32,
    check_size,
    pack_nullable_text,
    pack_tagged_fields,
    pack_uvarint,
    read_compact_count,
    read_tagged_field,
    read_tagged_field_count,
    read_uuid_bytes,
    read_uvarint,
    skip_tagged_fields,
)

FETCH_VERSION: Final = 17
"""Names topics by id and says which incarnation of the follower asks (KIP-903)."""

_START: Final = struct.Struct(">iiibii")
"""Maximal wait, least and most bytes, isolation level, session id and epoch."""

_PARTITION: Final = struct.Struct(">iiqiqiB")
"""Partition, leader epoch, offset, last fetched epoch, log start, most bytes, no tagged fields."""

_REPLICA_STATE: Final = struct.Struct(">iqB")
_ANSWER: Final = struct.Struct(">ihi")
"""Throttle time, error code, session id."""

_RESULT: Final = struct.Struct(">ihqqq")
"""Partition, error code, high watermark, last stable offset, log start."""

_EPOCH_OFFSET: Final = struct.Struct(">iq")
_ABORTED_SIZE: Final = 17
_NO_RECORDS: Final = memoryview(b"")
_LEAST_RESULT: Final = _RESULT.size + 7


class FollowerFetch(NamedTuple):
    """A follower's request without its partitions: the follower (``replica_epoch``: its broker epoch), limits, session."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    session_id: int
    session_epoch: int
    cluster_id: str | None = None


class FetchedPartition(NamedTuple):
    """A leader's answer for one partition; ``diverging_epoch`` is (epoch, end offset). ``records`` is a view of the answer."""

    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    log_start_offset: int
    records: memoryview
    diverging_epoch: tuple[int, int] | None


class FollowerFetchResponse(NamedTuple):
    """A leader's answer: an error of the whole request, or partitions."""

    error_code: int
    session_id: int
    partitions: list[FetchedPartition]


def encode_follower_fetch(
    fetch: FollowerFetch, wanted: Iterable[FetchPartition], forgotten: Iterable[tuple[bytes, int]]
) -> bytes:
    """The body of a request; topics are given by the 16 bytes of their ids, partitions of one topic in any place."""
    out = [_START.pack(fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, 0, fetch.session_id, fetch.session_epoch)]
    topics: dict[bytes, list[bytes]] = {}
    for topic, partition, offset, most, leader_epoch, log_start, last_epoch, *_ in wanted:
        assert isinstance(topic, bytes)
        topics.setdefault(topic, []).append(
            _PARTITION.pack(partition, leader_epoch, offset, last_epoch, log_start, most, 0)
        )
    _write_topics(out, topics)
    dropped: dict[bytes, list[bytes]] = {}
    for topic, partition in forgotten:
        dropped.setdefault(topic, []).append(I32.pack(partition))
    _write_topics(out, dropped)
    out.append(_pack_end(fetch.replica_id, fetch.replica_epoch, fetch.cluster_id))
    return b"".join(out)


@lru_cache(maxsize=8)
def _pack_end(replica_id: int, replica_epoch: int, cluster_id: str | None) -> bytes:
    """Return the bytes behind the topics, the same in every request of a follower: no rack, which only consumers name, and the follower."""
    fields = [(1, _REPLICA_STATE.pack(replica_id, replica_epoch, 0))]
    if cluster_id is not None:
        fields.insert(0, (0, pack_nullable_text(cluster_id, flexible=True)))
    return b"\1" + pack_tagged_fields(fields)


def _write_topics(out: list[bytes], topics: dict[bytes, list[bytes]]) -> None:
    out.append(pack_uvarint(len(topics) + 1))
    for topic, partitions in topics.items():
        out.append(topic)
        out.append(pack_uvarint(len(partitions) + 1))
        out += partitions
        out.append(b"\0")


def decode_fetch_answer(body: memoryview) -> FollowerFetchResponse:
    """Read the body of an answer. Records are views of ``body``; unknown tagged fields are skipped.

    Raises:
        DecodeError: the bytes are no such answer.
    """
    try:
        return _decode(body)
    except (IndexError, struct.error) as error:
        raise DecodeError("Fetch: the answer is truncated") from error


def _decode(body: memoryview) -> FollowerFetchResponse:
    _throttle_ms, error_code, session_id = _ANSWER.unpack_from(body)
    topics, position = read_compact_count(body, _ANSWER.size, 18)
    partitions: list[FetchedPartition] = []
    for _ in range(topics):
        topic_id, position = read_uuid_bytes(body, position)
        count, position = read_compact_count(body, position, _LEAST_RESULT)
        for _ in range(count):
            partition, code, high_watermark, _, log_start = _RESULT.unpack_from(body, position)
            position = _skip_aborted(body, position + _RESULT.size) + 4  # the preferred read replica
            size, position = read_uvarint(body, position)
            records = _NO_RECORDS
            if size > 1:
                check_size(size - 1, body, position)
                records = body[position : position + size - 1]
                position += size - 1
            diverging = None
            if body[position]:
                diverging, position = _read_diverging(body, position)
            else:
                position += 1
            partitions.append(
                FetchedPartition(topic_id, partition, code, high_watermark, log_start, records, diverging)
            )
        position = skip_tagged_fields(body, position)
    skip_tagged_fields(body, position)
    return FollowerFetchResponse(error_code, session_id, partitions)


def _skip_aborted(body: Buffer, position: int) -> int:
    """The position after the aborted transactions, which are of interest to consumers."""
    count, position = read_uvarint(body, position)
    if count > 1:
        check_size((count - 1) * _ABORTED_SIZE, body, position)
        for _ in range(count - 1):
            position = skip_tagged_fields(body, position + _ABORTED_SIZE - 1)
    return position


def _read_diverging(body: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    """A partition's tagged fields, of which the diverging epoch (0) counts."""
    diverging: tuple[int, int] | None = None
    count, position = read_tagged_field_count(body, position)
    for _ in range(count):
        tag, start, position = read_tagged_field(body, position)
        if tag == 0:
            epoch, end_offset = _EPOCH_OFFSET.unpack_from(body, start)
            if skip_tagged_fields(body, start + _EPOCH_OFFSET.size) != position:
                raise DecodeError("Fetch: the diverging epoch does not have the size that it says")
            diverging = (epoch, end_offset)
    return diverging, position
