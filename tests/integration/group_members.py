"""Members of consumer groups, of each client family, that read in threads of their own."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AioRange
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, TopicPartition
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor

from tests.integration.kafka_python import subscribe

POLL_S: Final = 0.1
COMMIT_INTERVAL_MS: Final = 200
METADATA_MAX_AGE_MS: Final = 1000
"""A member that joined while its topic was away sees only by newer metadata that it is back."""

HEARTBEAT_MS: Final = 300
JOIN_TIMEOUT_S: Final = 30
QUICK_GROUPS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
}
"""Settings of a node whose groups begin without delay, and lose a silent member soon."""


class Member(ABC):
    """One member: it reads from its start until :meth:`leave`, as the range assignor divides the partitions.

    Args:
        bootstrap: where the cluster is found.
        topic: what it reads.
        group: the group's name.
        session_ms: after so long without a sign of life it is out.
        instance: its name, if it is a static member.
    """

    def __init__(
        self, bootstrap: str, topic: str, group: str, *, session_ms: int = 10_000, instance: str | None = None
    ) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.group = group
        self.session_ms = session_ms
        self.instance = instance
        self.assigned: frozenset[int] = frozenset()
        """Its partitions now."""
        self.read: list[tuple[int, int]] = []
        """Partition and offset of each record, in the order in which they came."""
        self.error: BaseException | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def start(self) -> Self:
        """Begin to join and read."""
        self._thread.start()
        return self

    def leave(self) -> None:
        """Commit, leave the group, and end."""
        self._leaving.set()
        self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def _guarded(self) -> None:
        try:
            self._run()
        except BaseException as error:  # told by leave()
            self.error = error

    @abstractmethod
    def _run(self) -> None:
        """Join, read until ``_leaving``, leave."""


class ConfluentMember(Member):
    """librdkafka's."""

    strategy = "range"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.rebalances: list[tuple[str, frozenset[int]]] = []
        """What was assigned and revoked, in order."""

    def _settings(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": self.strategy,
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "auto.commit.interval.ms": COMMIT_INTERVAL_MS,
            "topic.metadata.refresh.interval.ms": METADATA_MAX_AGE_MS,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
            **({"group.instance.id": self.instance} if self.instance else {}),
        }

    def _run(self) -> None:
        consumer = Consumer(self._settings())
        consumer.subscribe([self.topic], on_assign=self._on_assign, on_revoke=self._on_revoke)
        while not self._leaving.is_set():
            message = consumer.poll(POLL_S)
            self.assigned = frozenset(each.partition for each in consumer.assignment())
            if message is not None and message.error() is None:
                self.read.append((message.partition() or 0, message.offset() or 0))
        consumer.close()
        self.assigned = frozenset()

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances.append(("assigned", frozenset(each.partition for each in partitions)))

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances.append(("revoked", frozenset(each.partition for each in partitions)))


class ConsumerProtocolMember(ConfluentMember):
    """librdkafka's, which speaks the consumer protocol (KIP-848): times and assignors are the coordinator's."""

    def _settings(self) -> dict[str, Any]:
        settings = super()._settings()
        for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
            del settings[name]
        return settings | {"group.protocol": "consumer"}


class CooperativeMember(ConfluentMember):
    """librdkafka's, which gives up only what it must (KIP-429)."""

    strategy = "cooperative-sticky"


class KafkaPythonMember(Member):
    """kafka-python's."""

    def _run(self) -> None:
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit_interval_ms=COMMIT_INTERVAL_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            group_instance_id=self.instance,
        )
        subscribe(consumer, self.topic)
        while not self._leaving.is_set():
            for partition, records in consumer.poll(timeout_ms=int(POLL_S * 1000)).items():
                self.read += [(partition.partition, record.offset) for record in records]
            self.assigned = frozenset(each.partition for each in consumer.assignment())
        consumer.close()
        self.assigned = frozenset()


class AiokafkaMember(Member):
    """aiokafka's."""

    def _run(self) -> None:
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(AioRange,),
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit_interval_ms=COMMIT_INTERVAL_MS,
            metadata_max_age_ms=METADATA_MAX_AGE_MS,
            group_instance_id=self.instance,
        )
        await consumer.start()
        while not self._leaving.is_set():
            for partition, records in (await consumer.getmany(timeout_ms=int(POLL_S * 1000))).items():
                self.read += [(partition.partition, record.offset) for record in records]
            self.assigned = frozenset(each.partition for each in consumer.assignment())
        with suppress(KafkaError):  # the others leave too, which may end its generation
            await (
                consumer.commit()
            )  # which finds the coordinator: told to stop while it knows none, aiokafka commits in vain for ever
        await consumer.stop()
        self.assigned = frozenset()


def members_of_a_test() -> Iterator[list[Member]]:
    """The body of a fixture: a list for a test's members, all of which leave when it ends."""
    started: list[Member] = []
    yield started
    while started:
        started.pop().leave()


FAMILIES: Final = (ConfluentMember, KafkaPythonMember, AiokafkaMember)
