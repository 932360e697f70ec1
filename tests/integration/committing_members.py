"""Members of consumer groups, of each client family, that commit what they have read, and remember what was acknowledged.

A record counts as committed by a member if the member read it, and a commit of the offset behind it was acknowledged, while the member
had the partition. Where a rebalance began in between, the client may have sent the commit in the next generation: the record does not
count.
"""

import asyncio
from typing import Any, Final

import aiokafka
import kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.integration.group_members import (
    HEARTBEAT_MS,
    METADATA_MAX_AGE_MS,
    POLL_S,
    ConfluentMember,
    ConsumerProtocolMember,
    Member,
)
from tests.integration.java_member import JavaMember
from tests.integration.kafka_python import subscribe

_BATCH: Final = 20
"""Records that librdkafka gives at once."""

Record = tuple[int, int]
"""Partition and offset."""


class CommittingMember(Member):
    """A member that commits what it has read, batch by batch."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.committed: list[Record] = []
        """Each record of which the commit was acknowledged."""


class CommittingConfluent(CommittingMember, ConfluentMember):
    """librdkafka's; it commits once more when it gives partitions back."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._batch: list[Record] = []

    def _run(self) -> None:
        consumer = Consumer(self._settings() | {"enable.auto.commit": False})
        consumer.subscribe([self.topic], on_revoke=self._give_back, on_lost=self._lose)
        while not self._leaving.is_set():
            for message in consumer.consume(_BATCH, POLL_S):
                if message.error() is None:
                    self._batch.append((message.partition() or 0, message.offset() or 0))
                    self.read.append(self._batch[-1])
            self.assigned = frozenset(each.partition for each in consumer.assignment())
            self._commit(consumer)
        consumer.close()
        self.assigned = frozenset()

    def _commit(self, consumer: Consumer) -> None:
        """Commit the batch; until that is acknowledged, it is not known whether it is committed."""
        ends = ends_of(self._batch)
        if not ends:
            return
        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in ends.items()]
        try:
            told = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return
        taken = {each.partition for each in told or () if each.error is None}
        self.committed += [record for record in self._batch if record[0] in taken]
        self._batch = [record for record in self._batch if record[0] not in taken]

    def _give_back(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer)
        self._lose(consumer, partitions)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {each.partition for each in partitions}
        self._batch = [record for record in self._batch if record[0] not in gone]


class CommittingOfConsumers(CommittingConfluent, ConsumerProtocolMember):
    """librdkafka's, which speaks the consumer protocol."""


class _Rebalances(kafka.ConsumerRebalanceListener, aiokafka.ConsumerRebalanceListener):
    """Counts what happens to a member's partitions."""

    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, _partitions: object) -> None:
        """A rebalance begins."""
        self.count += 1

    def on_partitions_assigned(self, _partitions: object) -> None:
        """A rebalance has ended."""
        self.count += 1


class CommittingKafkaPython(CommittingMember):
    """kafka-python's."""

    def _run(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        rebalances = _Rebalances()
        subscribe(consumer, self.topic, listener=rebalances)
        while not self._leaving.is_set():
            polled = consumer.poll(timeout_ms=int(POLL_S * 1000))
            began = rebalances.count
            batch = [
                (partition.partition, record.offset) for partition, records in polled.items() for record in records
            ]
            self.read += batch
            self.assigned = frozenset(each.partition for each in consumer.assignment())
            if batch and self._is_committed(consumer, batch) and rebalances.count == began:
                self.committed += batch
        consumer.close()
        self.assigned = frozenset()

    def _is_committed(self, consumer: kafka.KafkaConsumer, batch: list[Record]) -> bool:
        offsets = {
            kafka.TopicPartition(self.topic, partition): kafka.OffsetAndMetadata(end, "", -1)
            for partition, end in ends_of(batch).items()
        }
        try:
            consumer.commit(offsets)
        except kafka.errors.KafkaError:
            return False
        return True


class CommittingAiokafka(CommittingMember):
    """aiokafka's."""

    def _run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(AioRange,),
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
        )
        rebalances = _Rebalances()
        consumer.subscribe([self.topic], listener=rebalances)
        await consumer.start()
        while not self._leaving.is_set():
            polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
            began = rebalances.count
            batch = [
                (partition.partition, record.offset) for partition, records in polled.items() for record in records
            ]
            self.read += batch
            self.assigned = frozenset(each.partition for each in consumer.assignment())
            if batch and await self._is_committed(consumer, batch) and rebalances.count == began:
                self.committed += batch
        await consumer.stop()
        self.assigned = frozenset()

    async def _is_committed(self, consumer: aiokafka.AIOKafkaConsumer, batch: list[Record]) -> bool:
        ends = ends_of(batch)
        try:
            await consumer.commit(
                {aiokafka.TopicPartition(self.topic, partition): ends[partition] for partition in ends}
            )
        except aiokafka.errors.KafkaError:
            return False
        return True


Owner = CommittingMember | JavaMember
"""A member whose records are known; Java's commits each batch as it comes."""


def read_by(member: Owner) -> list[Record]:
    """The records that a member has read."""
    if isinstance(member, CommittingMember):
        return member.read
    return [record for event in member.named("records_consumed") for record in _records_of(event)]


def committed_by(member: Owner) -> list[Record]:
    """The records that a member has committed."""
    if isinstance(member, CommittingMember):
        return member.committed
    committed: list[Record] = []
    batch: list[Record] = []
    for event in tuple(member.events):
        if event["name"] == "records_consumed":
            batch += _records_of(event)
        elif event["name"] == "offsets_committed" and event["success"]:
            ends = {each["partition"]: each["offset"] for each in event["offsets"]}
            committed += (record for record in batch if record[1] < ends.get(record[0], 0))
            batch = [record for record in batch if record[1] >= ends.get(record[0], 0)]
        elif event["name"] == "partitions_revoked":
            gone = {each["partition"] for each in event["partitions"]}
            batch = [record for record in batch if record[0] not in gone]
    return committed


def _records_of(event: dict[str, Any]) -> list[Record]:
    return [
        (each["partition"], offset)
        for each in event["partitions"]
        for offset in range(each["minOffset"], each["maxOffset"] + 1)
    ]


def ends_of(batch: list[Record]) -> dict[int, int]:
    """The offsets to commit for records, by partition."""
    return {partition: offset + 1 for partition, offset in sorted(batch)}
