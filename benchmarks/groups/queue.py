"""A share consumer (KIP-932) that takes all records of a topic: what each costs the broker, and how many it gets in a second."""

import os
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from kio.schema.share_fetch.v1 import request as share_fetch
from kio.schema.share_group_heartbeat.v1 import request as heartbeat
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from benchmarks.client import Client, check, create_topic, delete_topic
from benchmarks.cost import CostMeter
from benchmarks.filling import fill
from benchmarks.groups.coordinator import PATIENCE, await_coordinator
from benchmarks.groups.metrics import QUEUE
from benchmarks.stage import Stage
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess

RECORDS: Final = 200_000
VALUE_SIZE: Final = 100
BATCH_RECORDS: Final = 144
"""The records that a Java producer puts into a batch with its default ``batch.size`` of 16 KiB."""

RECORDS_MAX: Final = 500
"""The most records of an answer: the default of Java's ``max.poll.records``."""

_HEARTBEAT_VERSION: Final = 1
_FETCH_VERSION: Final = 1
_ACCEPT: Final = i8(1)
_MAX_WAIT: Final = i32Timedelta.parse(timedelta(milliseconds=500))
_MAX_BYTES: Final = i32(50 << 20)
_BUFFER_SIZE: Final = 4 << 20
_POLL_INTERVAL_S: Final = 0.01
_INITIAL_EPOCH: Final = 0
_FINAL_EPOCH: Final = -1


class ShareConsumer:
    """A member of a share group, with one partition and one share session.

    Args:
        client: connected to the broker.
        group: its id.
        topic: of one partition.
    """

    def __init__(self, client: Client, group: str, topic: str) -> None:
        self.accepted = 0
        """The number of records that the broker knows to be accepted."""
        self._client = client
        self._group = GroupId(group)
        self._topic = TopicName(topic)
        self._member = str(uuid.uuid4())
        self._epoch = _INITIAL_EPOCH
        self._topic_id: uuid.UUID | None = None
        self._acquired: list[tuple[int, int]] = []

    def join(self) -> None:
        """Join the group, and open the session in the empty topic."""
        epoch = 0
        while self._topic_id is None:
            request = heartbeat.ShareGroupHeartbeatRequest(
                group_id=self._group,
                member_id=self._member,
                member_epoch=i32(epoch),
                subscribed_topic_names=None if epoch else (self._topic,),
            )
            answer = self._client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, _HEARTBEAT_VERSION, request)
            if answer.error_code not in PATIENCE:
                check(answer.error_code, f"heartbeat of group {self._group}")
                epoch = int(answer.member_epoch)
                if answer.assignment is not None and answer.assignment.topic_partitions:
                    self._topic_id = answer.assignment.topic_partitions[0].topic_id
            time.sleep(_POLL_INTERVAL_S)
        self.take(is_single=False)

    def take(self, *, is_single: bool) -> None:
        """Accept what was acquired, and acquire the next records.

        Args:
            is_single: true to accept each record by itself.

        Raises:
            UnexpectedAnswerError: the broker refuses.
        """
        answer = self._fetch(tuple(self._acknowledgements(is_single=is_single)), self._epoch)
        self.accepted = self.taken
        self._epoch += 1
        self._acquired = [
            (int(acquired.first_offset), int(acquired.last_offset))
            for topic in answer.responses
            for partition in topic.partitions
            for acquired in partition.acquired_records
        ]

    @property
    def taken(self) -> int:
        """The number of records that it has accepted or acquired."""
        return self.accepted + sum(last - first + 1 for first, last in self._acquired)

    def end_session(self, *, is_single: bool) -> None:
        """Accept what was acquired, without a wait for more."""
        self._fetch(tuple(self._acknowledgements(is_single=is_single)), _FINAL_EPOCH)
        self.accepted, self._acquired = self.taken, []

    def leave(self) -> None:
        """Leave the group."""
        request = heartbeat.ShareGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member, member_epoch=i32(-1)
        )
        answer = self._client.ask(ApiKey.SHARE_GROUP_HEARTBEAT, _HEARTBEAT_VERSION, request)
        check(answer.error_code, f"the last heartbeat of group {self._group}")

    def _acknowledgements(self, *, is_single: bool) -> "Iterator[share_fetch.AcknowledgementBatch]":
        for first, last in self._acquired:
            ranges = [(number, number) for number in range(first, last + 1)] if is_single else [(first, last)]
            for start, end in ranges:
                yield share_fetch.AcknowledgementBatch(
                    first_offset=i64(start), last_offset=i64(end), acknowledge_types=(_ACCEPT,)
                )

    def _fetch(self, acknowledgements: tuple[share_fetch.AcknowledgementBatch, ...], epoch: int) -> Any:
        is_named = bool(acknowledgements) or epoch == _INITIAL_EPOCH
        partition = share_fetch.FetchPartition(partition_index=i32(0), acknowledgement_batches=acknowledgements)
        topic = share_fetch.FetchTopic(topic_id=self._topic_id, partitions=(partition,))
        request = share_fetch.ShareFetchRequest(
            group_id=self._group,
            member_id=self._member,
            share_session_epoch=i32(epoch),
            max_wait=_MAX_WAIT,
            min_bytes=i32(1),
            max_bytes=_MAX_BYTES,
            max_records=i32(RECORDS_MAX),
            batch_size=i32(RECORDS_MAX),
            topics=(topic,) if is_named else (),
            forgotten_topics_data=(),
        )
        answer = self._client.ask(ApiKey.SHARE_FETCH, _FETCH_VERSION, request)
        check(answer.error_code, "ShareFetch")
        for answered in answer.responses:
            for part in answered.partitions:
                check(part.error_code, "ShareFetch of the partition")
                check(part.acknowledge_error_code, "the acknowledgement")
        return answer


def _batches(records: int) -> Iterator[bytes]:
    values = [NewRecord(os.urandom(VALUE_SIZE)) for _ in range(BATCH_RECORDS)]
    batch = build_batch(values, timestamp_ms=time.time_ns() // 1_000_000)
    for _ in range(records // BATCH_RECORDS):
        yield batch


def _consume(node: NodeProcess, name: str, records: int, *, is_single: bool) -> CostMeter:
    """Take all records of a new topic by a new group."""
    create_topic(node.port, name, 1)
    await_coordinator(node.port, name)
    wanted = records // BATCH_RECORDS * BATCH_RECORDS
    with Client(node.port, _BUFFER_SIZE) as client:
        consumer = ShareConsumer(client, name, name)
        consumer.join()
        fill(node, name, _batches(records))
        with CostMeter(node) as cost:
            while consumer.taken < wanted:
                consumer.take(is_single=is_single)
            consumer.end_session(is_single=is_single)
        consumer.leave()
    delete_topic(node.port, name)
    return cost


def measure_queue(stage: Stage) -> None:
    """Take records with one acknowledgement for all records of an answer, and with one for each."""
    records = stage.scaled(RECORDS, least=10 * BATCH_RECORDS)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            for is_single, (cpu, rate) in QUEUE.items():
                topic = f"queue-{'single' if is_single else 'all'}-{number}"
                cost = _consume(node, topic, records, is_single=is_single)
                stage.take(name, {cpu: cost.all_s * 1e6 / records, rate: records / cost.elapsed_s}, number)
