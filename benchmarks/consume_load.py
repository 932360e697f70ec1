"""Reads a topic whole, from warm page cache, as a Java consumer does.

One connection, one request at a time for all partitions, in an incremental fetch session (KIP-227), with the Java consumer's limits.
"""

from datetime import timedelta
from typing import Any, Final

from kio.schema.fetch.v12 import request as fetch
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from benchmarks.batches import PARTITIONS
from benchmarks.client import Client, OpenClient, UnexpectedAnswerError, check
from benchmarks.cost import CostMeter
from benchmarks.results import (
    CONSUME_AGAIN_ALL,
    CONSUME_AGAIN_USER,
    CONSUME_ALL,
    CONSUME_RATE,
    CONSUME_USER,
    Metric,
)
from esp.protocol.registry import ApiKey
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.testing.node_process import NodeProcess

FETCH_VERSION: Final = 12
"""The last version that names topics by name."""

MAX_BYTES: Final = 50 << 20
PARTITION_MAX_BYTES: Final = 1 << 20
RECEIVE_BUFFER_SIZE: Final = PARTITIONS * PARTITION_MAX_BYTES + (64 << 10)
MIN_BYTES: Final = 1
MAX_WAIT: Final = i32Timedelta.parse(timedelta(milliseconds=500))


class FetchSession:
    """Reads all partitions of a topic, once, from their beginning.

    Args:
        topic: what to read.
        isolation_level: 1 for transactions that are decided, 0 for all records.
    """

    def __init__(self, topic: str, isolation_level: int = 0) -> None:
        self._topic = topic
        self._isolation_level = i8(isolation_level)
        self._session_id = 0
        self._session_epoch = 0
        self._offsets = dict.fromkeys(range(PARTITIONS), 0)
        self._moved: list[int] = list(self._offsets)
        self.received = 0
        """Bytes of whole batches so far."""

    def next_request(self) -> fetch.FetchRequest:
        """The request that asks for more: for all partitions at first, then for what is to be told of those that moved."""
        partitions = [
            fetch.FetchPartition(
                partition=i32(partition),
                fetch_offset=i64(self._offsets[partition]),
                partition_max_bytes=i32(PARTITION_MAX_BYTES),
            )
            for partition in self._moved
        ]
        topics = (fetch.FetchTopic(topic=TopicName(self._topic), partitions=tuple(partitions)),) if partitions else ()
        return fetch.FetchRequest(
            max_wait=MAX_WAIT,
            min_bytes=i32(MIN_BYTES),
            max_bytes=i32(MAX_BYTES),
            isolation_level=self._isolation_level,
            session_id=i32(self._session_id),
            session_epoch=i32(self._session_epoch),
            topics=topics,
            forgotten_topics_data=(),
        )

    def take(self, answer: Any) -> int:
        """Take the answer and return the bytes of whole batches in it.

        Raises:
            UnexpectedAnswerError: it, or a partition in it, has an error.
        """
        check(answer.error_code, "fetching")
        self._session_id = answer.session_id
        self._session_epoch += 1
        received = 0
        moved: list[int] = []
        for topic in answer.responses:
            for partition in topic.partitions:
                number = partition.partition_index
                check(partition.error_code, f"fetching {topic.topic}-{number}")
                size, next_offset = whole_batches(partition.records or b"")
                if size:
                    received += size
                    self._offsets[number] = next_offset
                    moved.append(number)
        if self._session_id:
            self._moved = moved
        else:  # the broker keeps no session: each request tells all
            self._session_epoch = 0
            self._moved = list(self._offsets)
        self.received += received
        return received


def whole_batches(records: bytes) -> tuple[int, int]:
    """Return the bytes of the whole batches at the front of ``records``, and the offset after the last of them (0 without one).

    Kafka cuts what it sends at the limit, wherever that falls; the rest of the last batch comes again with the next request.
    """
    position = 0
    next_offset = 0
    while len(records) - position >= HEADER_SIZE:
        header = read_header(records, position)
        if position + header.size > len(records):
            break
        position += header.size
        next_offset = header.next_offset
    return position, next_offset


def consume(port: int, topic: str, size: int, open_client: OpenClient = Client) -> None:
    """Read ``topic``, which holds ``size`` bytes of batches, from beginning to end.

    Raises:
        UnexpectedAnswerError: the end does not come after ``size`` bytes.
    """
    session = FetchSession(topic)
    with open_client(port, RECEIVE_BUFFER_SIZE) as client:
        while session.received < size:
            if not session.take(client.ask(ApiKey.FETCH, FETCH_VERSION, session.next_request())):
                raise UnexpectedAnswerError(f"topic {topic} ended after {session.received} of {size} bytes")
    if session.received != size:
        raise UnexpectedAnswerError(f"topic {topic} has {session.received} bytes instead of {size}")


def measure_consume(
    node: NodeProcess, topic: str, size: int, passes: int, open_client: OpenClient = Client
) -> dict[Metric, float]:
    """Return what reading ``topic`` whole, ``passes`` times one after the other, costs."""
    cost, gigabytes = _consume_often(node, topic, size, passes, open_client)
    return {
        CONSUME_USER: cost.user_s / gigabytes,
        CONSUME_ALL: cost.all_s / gigabytes,
        CONSUME_RATE: gigabytes * 1000 / cost.elapsed_s,
    }


def measure_consume_again(node: NodeProcess, topic: str, size: int, passes: int) -> dict[Metric, float]:
    """Return what it costs that others read ``topic`` whole, ``passes`` times, after :func:`measure_consume`."""
    cost, gigabytes = _consume_often(node, topic, size, passes)
    return {CONSUME_AGAIN_USER: cost.user_s / gigabytes, CONSUME_AGAIN_ALL: cost.all_s / gigabytes}


def _consume_often(
    node: NodeProcess, topic: str, size: int, passes: int, open_client: OpenClient = Client
) -> tuple[CostMeter, float]:
    with CostMeter(node) as cost:
        for _ in range(passes):
            consume(node.port, topic, size, open_client)
    return cost, size * passes / 1e9
