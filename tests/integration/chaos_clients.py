"""Writers and readers of three client families that go on whatever happens to the nodes, and remember what they saw."""

import asyncio
import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from aiokafka.errors import OffsetOutOfRangeError as AioOffsetOutOfRangeError
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as RdTopicPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError as PyKafkaError
from kafka.errors import OffsetOutOfRangeError as PyOffsetOutOfRangeError

from esp.simulation.checkers.client_history import Outcome, Read, Sent
from tests.integration.load import Load

PARTITIONS: Final = 3
KEYS: Final = 9
PAUSE_S: Final = 0.003
"""Between two records of a writer: the load is there to be interrupted."""

MAX_UNACKED: Final = 500
GIVE_UP_MS: Final = 180_000
"""How long a writer tries to get a record through; longer than any fault lasts."""

NEVER_MS: Final = 0
"""The time of a message in librdkafka: after it a new epoch begins, in which records are sent again that may be written already."""

JOIN_TIMEOUT_S: Final = 240


class Client(ABC):
    """Does its work in a thread of its own until it is told to stop.

    Args:
        bootstrap: of the cluster.
        topic: its own.
    """

    family: str

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        """What ended the client, if anything did."""
        self._thread = threading.Thread(target=self._guard, daemon=True, name=f"{type(self).__name__} of {topic}")

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def finish(self) -> None:
        """Stop after what is in flight is done."""
        self.stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)
        assert not self._thread.is_alive(), f"{self._thread.name} does not end"

    def _guard(self) -> None:
        try:
            self.run()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def run(self) -> None:
        """Work until ``stopping`` is set."""


class Writer(Client):
    """Numbers the records of a few keys and sends them in that order, idempotent, with acks=all."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.sent: list[Sent] = []
        self._numbers: defaultdict[str, int] = defaultdict(int)

    def next_record(self) -> tuple[int, str, int]:
        """Return index, key and number of the next record; its fate is open."""
        key = f"k{len(self.sent) % KEYS}"
        number = self._numbers[key]
        self._numbers[key] = number + 1
        self.sent.append(Sent(key, number, Outcome.UNKNOWN))
        return len(self.sent) - 1, key, number

    def acknowledge(self, index: int, partition: int, offset: int) -> None:
        """The record stands at an offset, so the node says."""
        self.sent[index] = self.sent[index]._replace(outcome=Outcome.ACKED, partition=partition, offset=offset)

    @property
    def acked(self) -> int:
        """How many records were acknowledged."""
        return sum(sent.outcome is Outcome.ACKED for sent in self.sent)


class RdWriter(Writer):
    """librdkafka, by the load that other tests use."""

    family = "librdkafka"

    def run(self) -> None:
        """As said above."""
        load = Load(_Served(self.bootstrap), self.topic, message_timeout_ms=NEVER_MS, socket_timeout_ms=5000)
        self.sent = load.sent
        with load:
            self.stopping.wait()
            with contextlib.suppress(AssertionError):  # what is open then, is of unknown outcome
                load.finish()


class _Served:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


class PyWriter(Writer):
    """kafka-python."""

    family = "kafka-python"

    def run(self) -> None:
        """As said above."""
        producer = self._begin()
        futures = []
        while not self.stopping.wait(PAUSE_S):
            if sum(not future.is_done for _, future in futures[-MAX_UNACKED:]) >= MAX_UNACKED:
                continue
            index, key, number = self.next_record()
            with contextlib.suppress(PyKafkaError):
                futures.append((index, producer.send(self.topic, b"%d" % number, key.encode())))
        with contextlib.suppress(PyKafkaError):
            producer.flush(GIVE_UP_MS / 1000)
        for index, future in futures:
            if future.succeeded():
                self.acknowledge(index, future.value.partition, future.value.offset)
        with contextlib.suppress(
            PyKafkaError
        ):  # it may keep a batch beyond delivery_timeout_ms, without any request under way
            producer.close(timeout=10)

    def _begin(self) -> KafkaProducer:
        """A producer that has its id: an InitProducerId that gets no answer, as from a paused node, ends a producer of kafka-python."""
        while True:
            producer = KafkaProducer(
                bootstrap_servers=self.bootstrap.split(","),
                acks="all",
                enable_idempotence=True,
                delivery_timeout_ms=GIVE_UP_MS,
                request_timeout_ms=5000,
                max_block_ms=GIVE_UP_MS,
                retry_backoff_ms=50,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=200,
            )
            index, key, number = self.next_record()
            try:
                metadata = producer.send(self.topic, b"%d" % number, key.encode()).get(GIVE_UP_MS / 1000)
                self.acknowledge(index, metadata.partition, metadata.offset)
                return producer
            except PyKafkaError:
                if self.stopping.is_set():
                    return producer
                producer.close(timeout=0)


class AioWriter(Writer):
    """aiokafka."""

    family = "aiokafka"

    def run(self) -> None:
        """As said above."""
        asyncio.run(self._write())

    async def _write(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            enable_idempotence=True,
            request_timeout_ms=GIVE_UP_MS,
            retry_backoff_ms=50,
        )
        await producer.start()
        unacked: set[asyncio.Task[None]] = set()

        async def learn(index: int, sending: asyncio.Future[Any]) -> None:
            with contextlib.suppress(AioKafkaError):
                metadata = await sending
                self.acknowledge(index, metadata.partition, metadata.offset)

        while not self.stopping.is_set():
            await asyncio.sleep(PAUSE_S)
            if len(unacked) < MAX_UNACKED:
                index, key, number = self.next_record()
                try:  # one after another: the order of calls that wait for metadata at the same time is nobody's promise
                    sending = await producer.send(self.topic, b"%d" % number, key.encode())
                except AioKafkaError:
                    continue
                task = asyncio.create_task(learn(index, sending))
                unacked.add(task)
                task.add_done_callback(unacked.discard)
        await asyncio.gather(*unacked)
        await producer.stop()


class Reader(Client):
    """Reads all partitions by assignment from their start, and goes on at the end of the log."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.read: list[Read] = []
        self.denials = Denials()


class Denials:
    """The answers that an offset does not exist, by partition.

    A replaced leader that does not know of its replacement yet may give such an answer (BRK-9, READ-5) to a client whose metadata goes back
    to it: kafka-python takes older metadata from any node. No leader may go on denying an offset beyond that time of doubt.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        """The longest time between the first and the last denial of an offset."""
        self._since_s: dict[int, float] = {}

    def on_denied(self, partition: int, now_s: float) -> None:
        """The offset at which the reader stands does not exist, so a node says."""
        self.count += 1
        self.longest_s = max(self.longest_s, now_s - self._since_s.setdefault(partition, now_s))

    def on_served(self, partition: int) -> None:
        """The reader got records from where it stood."""
        self._since_s.pop(partition, None)


class RdReader(Reader):
    """librdkafka."""

    family = "librdkafka"

    def run(self) -> None:
        """As said above."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 5000,
                "topic.metadata.refresh.interval.ms": 2000,
                "log_level": 0,
            }
        )
        consumer.assign([RdTopicPartition(self.topic, partition, 0) for partition in range(PARTITIONS)])
        while not self.stopping.is_set():
            for message in consumer.consume(1000, 0.1):
                error = message.error()
                if error is None:
                    self.denials.on_served(message.partition())
                    self.read.append(
                        Read(message.partition(), message.offset(), message.key().decode(), int(message.value()))
                    )
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.denials.on_denied(message.partition(), time.monotonic())
        consumer.close()


class PyReader(Reader):
    """kafka-python."""

    family = "kafka-python"

    def run(self) -> None:
        """As said above."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.bootstrap.split(","),
            enable_auto_commit=False,
            auto_offset_reset="none",
            request_timeout_ms=5000,
            metadata_max_age_ms=2000,
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=200,
        )
        partitions = [TopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while not self.stopping.is_set():
            try:
                polled = consumer.poll(100)
            except PyOffsetOutOfRangeError as error:
                for denied in error.args[0]:
                    self.denials.on_denied(denied.partition, time.monotonic())
                self.stopping.wait(0.1)
                continue
            except PyKafkaError:
                self.stopping.wait(0.1)
                continue
            for partition, records in polled.items():
                self.denials.on_served(partition.partition)
                self.read += [
                    Read(record.partition, record.offset, record.key.decode(), int(record.value)) for record in records
                ]
        consumer.close(autocommit=False)


class AioReader(Reader):
    """aiokafka."""

    family = "aiokafka"

    def run(self) -> None:
        """As said above."""
        asyncio.run(self._read())

    async def _read(self) -> None:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="none",
            request_timeout_ms=5000,
            metadata_max_age_ms=2000,
            retry_backoff_ms=50,
        )
        await consumer.start()
        partitions = [AioTopicPartition(self.topic, partition) for partition in range(PARTITIONS)]
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while not self.stopping.is_set():
            try:
                polled = await consumer.getmany(timeout_ms=100)
            except AioOffsetOutOfRangeError as error:
                for denied in error.args[0]:
                    self.denials.on_denied(denied.partition, time.monotonic())
                await asyncio.sleep(0.1)
                continue
            except AioKafkaError:
                await asyncio.sleep(0.1)
                continue
            for partition, records in polled.items():
                self.denials.on_served(partition.partition)
                self.read += [
                    Read(record.partition, record.offset, (record.key or b"").decode(), int(record.value or b"-1"))
                    for record in records
                ]
        await consumer.stop()


FAMILIES: Final[tuple[tuple[type[Writer], type[Reader]], ...]] = (
    (RdWriter, RdReader),
    (PyWriter, PyReader),
    (AioWriter, AioReader),
)
