"""The data: one topic's worth of batches, made before the clock runs."""

import math
import os
import time
from collections.abc import Sequence
from typing import Final

from kio.schema.produce.v12 import request as produce
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32, i32Timedelta

from benchmarks.client import ADMIN_TIMEOUT, CLIENT_ID, UnexpectedAnswerError, check
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch

PARTITIONS: Final = 4
PRODUCE_VERSION: Final = 12
"""The last version that names topics by name: a request made before the topic exists stays right."""

ACKS_ALL: Final = -1
LARGE_VALUE_SIZE: Final = 1000
LARGE_BATCH_SIZE_MAX: Final = 128 << 10
RECORD_OVERHEAD_MAX: Final = 16
"""Bytes of a record beside its value: lengths, deltas and attributes."""

SMALL_VALUE_SIZE: Final = 100

_PARTITION_INDEX_SIZE: Final = 4


def large_batch() -> bytes:
    """As many records of 1 KB as fit into a batch of 128 KiB: what a Java producer with that ``batch.size`` sends under load."""
    count = LARGE_BATCH_SIZE_MAX // (LARGE_VALUE_SIZE + RECORD_OVERHEAD_MAX)
    return _batch_of([os.urandom(LARGE_VALUE_SIZE) for _ in range(count)])


def small_batch() -> bytes:
    """One record of 100 bytes."""
    return _batch_of([os.urandom(SMALL_VALUE_SIZE)])


def _batch_of(values: list[bytes]) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return build_batch([NewRecord(value) for value in values], timestamp_ms=now_ms)


def produce_requests(topic: str, batch: bytes) -> list[bytes]:
    """One whole request for each partition, acks=all, with the one batch; sent as often as wanted."""
    return spread_requests(topic, [batch])


def spread_requests(topic: str, batches: Sequence[bytes]) -> list[bytes]:
    """Requests of one batch each, acks=all, in which batches and partitions take turns; sent as often as wanted, partitions stay even."""
    turns = range(math.lcm(len(batches), PARTITIONS))
    return [_produce_request(topic, turn % PARTITIONS, batches[turn % len(batches)]) for turn in turns]


def _produce_request(topic: str, partition: int, batch: bytes) -> bytes:
    data = produce.PartitionProduceData(index=i32(partition), records=Records(batch))
    request = produce.ProduceRequest(
        acks=i16(ACKS_ALL),
        timeout=i32Timedelta.parse(ADMIN_TIMEOUT),
        topic_data=(produce.TopicProduceData(name=TopicName(topic), partition_data=(data,)),),
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 0, CLIENT_ID, request)


class AckChecker:
    """Looks at answers to :func:`produce_requests`, at next to no cost.

    Args:
        topic: the topic of the requests; its name is short.
    """

    def __init__(self, topic: str) -> None:
        name = topic.encode()
        # correlation id, tagged fields, one topic, its name, one partition: compact lengths and counts are one too high
        self._start = bytes((0, 0, 0, 0, 0, 2, len(name) + 1)) + name + b"\2"
        self._start_size = len(self._start)
        self._error_position = self._start_size + _PARTITION_INDEX_SIZE
        self.acked = 0
        """Answers without an error so far."""

    def check(self, answer: memoryview) -> None:
        """Take one answer without its length.

        Raises:
            UnexpectedAnswerError: it says that the records were not taken.
        """
        position = self._error_position
        if answer[position] or answer[position + 1] or bytes(answer[: self._start_size]) != self._start:
            self._explain(answer)
        self.acked += 1

    def _explain(self, answer: memoryview) -> None:
        body = answer[read_response_header(answer, ApiKey.PRODUCE, PRODUCE_VERSION)[1] :]
        for topic in decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, body).responses:
            for partition in topic.partition_responses:
                check(partition.error_code, f"producing to {topic.name}-{partition.index}")
        raise UnexpectedAnswerError(f"an answer to Produce that cannot be understood: {answer.hex()}")
