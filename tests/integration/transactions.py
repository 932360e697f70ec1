"""Transactions of real clients: what they write, and a program that reads, transforms and writes exactly once."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from aiokafka import AIOKafkaProducer
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from tests.integration.conftest import eventually
from tests.integration.wire import Listener, Wire

TIMEOUT_S: Final = 30.0
FEATURE: Final = "transaction.version"
FIRST_LEVEL: Final = 2
"""The level of the feature in a new cluster."""

Steps = Iterable[tuple[bool, list[bytes]]]
"""The transactions of a producer: whether each commits, and its values."""

WriteTransactions = Callable[[str, str, str, Steps], None]
"""Called with the bootstrap servers, the transactional id, the topic and the steps."""


def serve_transactions(bootstrap: str, nodes: Iterable[Listener], level: int = 2) -> None:
    """Have a running cluster work at this level of transactions, which is 2 at first, and wait until each of these nodes serves them."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.update_features({FEATURE: ("UPGRADE" if level >= FIRST_LEVEL else "SAFE_DOWNGRADE", level)})
    finally:
        admin.close()
    for node in nodes:
        eventually(partial(_is_served, node, level))


def _is_served(node: Listener, level: int) -> bool:
    with Wire(node) as wire:
        answer = wire.call(ApiVersionsRequest(client_software_name="tests", client_software_version="1"))
    return any((found.name, found.max_version_level) == (FEATURE, level) for found in answer.finalized_features)


def transactional_producer(bootstrap: str, transactional_id: str, **settings: object) -> Producer:
    """librdkafka's producer, after the start of its transactional id."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            "retry.backoff.ms": 20,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "topic.metadata.refresh.interval.ms": 1000,
            **settings,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def write_by_librdkafka(bootstrap: str, transactional_id: str, topic: str, steps: Steps) -> None:
    """Run transactions one after another, each to both partitions."""
    producer = transactional_producer(bootstrap, transactional_id)
    for commit, values in steps:
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        producer.flush(TIMEOUT_S)
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)


def write_by_kafka_python(bootstrap: str, transactional_id: str, topic: str, steps: Steps) -> None:
    """Run transactions one after another, each to both partitions."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id, acks="all")
    try:
        producer.init_transactions()
        for commit, values in steps:
            producer.begin_transaction()
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % 2)
            producer.flush(TIMEOUT_S)
            if commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    finally:
        producer.close(timeout=5)


def write_by_aiokafka(bootstrap: str, transactional_id: str, topic: str, steps: Steps) -> None:
    """Run transactions one after another, each to both partitions."""

    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
        await producer.start()
        try:
            for commit, values in steps:
                await producer.begin_transaction()
                sent = [await producer.send(topic, value, partition=n % 2) for n, value in enumerate(values)]
                await asyncio.gather(*sent)
                if commit:
                    await producer.commit_transaction()
                else:
                    await producer.abort_transaction()
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), 4 * TIMEOUT_S))


WRITERS: Final[dict[str, WriteTransactions]] = {
    "librdkafka": write_by_librdkafka,
    "kafka-python": write_by_kafka_python,
    "aiokafka": write_by_aiokafka,
}


def consumer_of(bootstrap: str, group: str, *, committed: bool = True) -> Consumer:
    """A consumer of librdkafka's that commits nothing by itself."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "log_level": 0,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
        }
    )


def read_all(
    bootstrap: str, topic: str, count: int, *, partitions: int = 2, committed: bool = True, quiet_s: float = 0.5
) -> list[bytes]:
    """Read ``count`` values from the beginning, then nothing more for ``quiet_s``; the values of each partition are in order."""
    consumer = consumer_of(bootstrap, "reader", committed=committed)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        values: list[bytes] = []
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            message = consumer.poll(quiet_s if len(values) >= count else 1.0)
            if message is None and len(values) >= count:
                return values
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        raise AssertionError(f"{len(values)} values of {count} within {TIMEOUT_S} s")
    finally:
        consumer.close()


class ExactlyOnce:
    """Reads a topic as a member of a group, and writes each value to another topic, with the offsets, in transactions.

    Args:
        bootstrap: of the cluster.
        transactional_id: the program's.
        source: the topic to read.
        target: the topic to write.
    """

    def __init__(self, bootstrap: str, transactional_id: str, source: str, target: str) -> None:
        self._bootstrap = bootstrap
        self._id = transactional_id
        self._target = target
        self.aborted = 0
        """Transactions that were aborted because of an error."""
        self.begun_anew = 0
        """Producers that had to be replaced after a fatal error."""
        self._producer = transactional_producer(bootstrap, transactional_id)
        self._consumer = consumer_of(bootstrap, f"group of {transactional_id}")
        self._consumer.subscribe([source])

    def step(self, most: int = 10, *, abort: bool = False) -> int:
        """Run one transaction of up to ``most`` values; return the number of values that it has committed."""
        messages = [each for each in self._consumer.consume(most, 1.0) if each.error() is None]
        if not messages:
            return 0
        try:
            self._producer.begin_transaction()
            for message in messages:
                self._producer.produce(
                    self._target, b"<" + (message.value() or b"") + b">", partition=message.partition()
                )
            self._producer.send_offsets_to_transaction(
                self._consumer.position(self._consumer.assignment()),
                self._consumer.consumer_group_metadata(),
                TIMEOUT_S,
            )
            if not abort:
                self._end(lambda: self._producer.commit_transaction(TIMEOUT_S))
                return len(messages)
            self._end(lambda: self._producer.abort_transaction(TIMEOUT_S))
        except KafkaException as error:
            self._recover(error)
        self._rewind()
        return 0

    @staticmethod
    def _end(end: Callable[[], None]) -> None:
        while True:
            try:
                end()
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                return

    def _recover(self, error: KafkaException) -> None:
        """Abort after an error that lets the program go on, or begin anew.

        Raises:
            KafkaException: the abort was refused, too.
        """
        if error.args[0].txn_requires_abort():
            self.aborted += 1
            try:
                self._end(lambda: self._producer.abort_transaction(TIMEOUT_S))
            except KafkaException as refused:
                if not refused.args[0].fatal():
                    raise
            else:
                return
        self.begun_anew += 1
        self._producer = transactional_producer(self._bootstrap, self._id)

    def _rewind(self) -> None:
        """Go back to what is committed."""
        assigned = self._consumer.assignment()
        for partition in self._consumer.committed(assigned, TIMEOUT_S):
            if partition.offset < 0:
                partition.offset = OFFSET_BEGINNING
            self._consumer.seek(partition)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()
