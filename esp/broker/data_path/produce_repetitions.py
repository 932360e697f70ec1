"""The short way of Produce requests that repeat what their connection has asked before: another batch for the same partition.

Nearly all of a producer's requests are like that. The meaning of such a request was found with the first of its kind and is remembered by
the bytes that they share (:mod:`esp.protocol.produce_codec`): the replica, and the form of the answer. So this way checks no
less than :mod:`esp.broker.data_path.produce_appender`: all that depends on the batch, and all that may change, is checked each time. All
other requests take the ordinary way: requests that differ, requests that must wait for followers, and those with the first batch of a
transaction for a partition, about which its coordinator is asked (TXN-4).
"""

import struct
from collections.abc import Callable
from typing import Final

from esp.broker.data_path.produce_appender import ProduceAppender
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import Request
from esp.model.errors import ApiError
from esp.ports.clock import Clock
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import TopicRef, read_uvarint
from esp.protocol.produce_codec import (
    COMMON_OFFSET,
    FLEXIBLE_FROM,
    NO_TAGS,
    ProduceRequest,
    RepeatedAnswer,
    encode_produce_response,
    header_rest_size,
    pack_client,
    pack_partition,
)
from esp.protocol.registry import ApiKey
from esp.records.batch_header import HEADER_SIZE, TRANSACTIONAL_BIT, read_producer
from esp.replication.partition_leader import ALL_REPLICAS, PartitionLeader
from esp.replication.topic_codec import RecompressionNeededError
from esp.replication.verification import OPEN

LENGTH_SIZE: Final = 4
"""Bytes of a frame's length, which it does not count."""

PARTITIONS_MAX: Final = 64
"""Remembered for each connection, in about half a KiB each. A producer to more sends several in a request, which is no repetition."""

TRANSACTIONAL_ID_SIZE_MAX: Final = 255
"""The longest transactional id, in characters, that is remembered with a partition."""

_ReadStart = Callable[[memoryview], tuple[int, int, int, bytes]]
"""Returns the frame's length, API key and version in one number, correlation id, and common bytes."""


class ProduceRepetitions:
    """The partitions that one connection has produced to; see :class:`esp.broker.shortcut.Shortcut`.

    Args:
        request: the connection's first that may be repeated. Only requests of the same version and client id are remembered.
        transactional_id: that of the request; only requests with the same one, or without one, are remembered.
        clock: the node's.
        appender: that of the ordinary way, which refuses for this one too.
    """

    __slots__ = (
        "_access",
        "_access_version",
        "_appender",
        "_by_common",
        "_client_id",
        "_kind",
        "_refused",
        "_starts",
        "_topic_offset",
        "_transactional_id",
        "_version",
        "_wall_ms",
        "api_key",
        "body_offset",
    )

    def __init__(self, request: Request, transactional_id: str | None, clock: Clock, appender: ProduceAppender) -> None:
        self._appender = appender
        self._access = appender.access
        self._access_version = appender.access.version
        self._version = request.api_version
        self._client_id = request.client_id
        self._transactional_id = transactional_id
        self._wall_ms = clock.wall_ms
        self._refused = request.client.refused
        self.api_key: int = ApiKey.PRODUCE
        """See :class:`esp.broker.shortcut.Shortcut`."""
        self._kind = ApiKey.PRODUCE << 16 | request.api_version
        self.body_offset = COMMON_OFFSET + header_rest_size(request.client_id)
        """See :class:`esp.broker.shortcut.Shortcut`."""
        self._topic_offset = COMMON_OFFSET + len(pack_client(request.client_id, transactional_id, 0, 0))
        self._starts: dict[int, tuple[_ReadStart, int]] = {}
        """By the first byte of the topic, which tells how long the common bytes are: reads up to the records' size, and its offset."""
        self._by_common: dict[bytes, tuple[HostedPartition, TopicRef, int, int, RepeatedAnswer]] = {}
        """Replica, topic, partition, acks and answer."""

    def remember(self, request: Request, asked: ProduceRequest, hosted: HostedPartition) -> None:
        """A request for one partition was answered at once, and was not refused.

        Args:
            request: that it was.
            asked: its body.
            hosted: the replica that took its batch.
        """
        self._forget_if_rules_changed()
        if (
            len(self._by_common) >= PARTITIONS_MAX
            or request.api_version != self._version
            or request.client_id != self._client_id
            or asked.transactional_id != self._transactional_id
        ):
            return
        ((topic, partition, _),) = asked.partitions
        named = pack_partition(topic, partition)
        common = pack_client(self._client_id, self._transactional_id, asked.acks, asked.timeout_ms) + named
        read_start = struct.Struct(f">iii{len(common)}s").unpack_from
        self._starts[named[0]] = read_start, COMMON_OFFSET + len(common)
        self._by_common[common] = hosted, topic, partition, asked.acks, RepeatedAnswer(self._version, topic, partition)

    def _forget_if_rules_changed(self) -> None:
        """Where the rules of access have changed, let each partition be asked for by the ordinary way once more, which checks."""
        version = self._access.version
        if version != self._access_version:
            self._access_version = version
            self._by_common.clear()

    def answer(self, frame: memoryview) -> bytes | None:
        """See :class:`esp.broker.shortcut.Shortcut`."""
        size = len(frame)
        if size <= self._topic_offset:
            return None
        start = self._starts.get(frame[self._topic_offset])
        if start is None:
            return None
        read_start, records_offset = start
        if size < records_offset + HEADER_SIZE:
            return None
        if self._access.version != self._access_version:
            self._forget_if_rules_changed()
            return None
        length, kind, correlation_id, common = read_start(frame)
        repeated = self._by_common.get(common)
        if repeated is None or kind != self._kind or length != size - LENGTH_SIZE:
            return None
        hosted, topic, partition, acks, answer = repeated
        leader = hosted.leader
        if leader is None:  # the replica may be gone for good
            del self._by_common[common]
            return None
        try:
            length, position = read_uvarint(frame, records_offset)
        except DecodeError:
            return None
        end = position + length - 1
        if frame[end:] != NO_TAGS or (acks == ALL_REPLICAS and not leader.commits_what_it_appends()):
            return None
        records = frame[position:end]
        guard = None
        if self._transactional_id is not None:
            if not self._goes_on(leader, records):
                return None
            guard = OPEN
        try:
            if self._refused.by_partition:
                self._refused.check((topic, partition), records, leader.log.producers)
            base_offset, next_offset, time_ms = leader.append(records, acks, self._wall_ms(), guard=guard)
        except RecompressionNeededError:
            return None
        except ApiError as error:
            result = self._appender.refuse(self._refused, hosted, topic, partition, records, error)
            return encode_produce_response(self._version, correlation_id, [result])
        hosted.appended()
        log = hosted.log
        assert acks != ALL_REPLICAS or log.high_watermark >= next_offset, (
            "only committed records are acknowledged (PRODUCE-2)"
        )
        return answer.encode(correlation_id, base_offset, time_ms, log.log_start_offset)

    def _goes_on(self, leader: PartitionLeader, records: memoryview) -> bool:
        """True if a batch is of a transaction that is open in its partition already, so that no coordinator need be asked (TXN-4)."""
        if len(records) < HEADER_SIZE or not self._appender.serves_transactions():
            return False
        attributes, producer_id, epoch = read_producer(records)
        return bool(attributes & TRANSACTIONAL_BIT) and leader.log.producers.has_open_transaction(producer_id, epoch)


def can_be_repeated(version: int, transactional_id: str | None) -> bool:
    """True if repetitions of requests of this version, with this transactional id, are known as such."""
    return version >= FLEXIBLE_FROM and len(transactional_id or "") <= TRANSACTIONAL_ID_SIZE_MAX


def begins_transaction(hosted: HostedPartition, records: memoryview, base_offset: int) -> bool:
    """True if the batch that stands at ``base_offset`` is the first one of its producer's open transaction in the partition."""
    attributes, producer_id, _ = read_producer(records)
    state = hosted.log.producers.get(producer_id) if attributes & TRANSACTIONAL_BIT else None
    return state is not None and state.transaction_first_offset == base_offset
