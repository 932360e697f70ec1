"""Plain clients (librdkafka) beside the programs: topics, a steady load, transactions, and what a read_committed reader sees."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.ecosystem.waiting import wait_for

JOIN_TIMEOUT_S: Final = 180
MESSAGE_TIMEOUT_MS: Final = 180_000
"""Longer than any node stays down."""

TRANSACTION_TIMEOUT_MS: Final = 600_000
"""The timeout of a transactional producer; librdkafka wants it longer than that of a record."""

QUICK_RECONNECT: Final[Mapping[str, Any]] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 10_000,
    "topic.metadata.refresh.interval.ms": 5_000,
    "log_level": 0,
}


class Committed(NamedTuple):
    """A record that a read_committed reader got."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes


def create_topic(bootstrap: str, name: str, partitions: int, replication_factor: int) -> None:
    """Create a topic, and return when clients learn of all its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUICK_RECONNECT})
    admin.create_topics([NewTopic(name, partitions, replication_factor)])[name].result(60)

    def is_known() -> bool:
        found = admin.list_topics(name, 10).topics[name].partitions
        return len(found) == partitions and all(partition.leader >= 0 for partition in found.values())

    wait_for(is_known, JOIN_TIMEOUT_S, f"topic {name}")


def idempotent_producer(bootstrap: str, **settings: object) -> Producer:
    """Return a producer that gives no record up for as long as a node is down."""
    named = {name if name == "log_level" else name.replace("_", "."): value for name, value in settings.items()}
    return Producer(
        {
            "bootstrap.servers": bootstrap,
            **QUICK_RECONNECT,
            "enable.idempotence": True,
            "message.timeout.ms": MESSAGE_TIMEOUT_MS,
            "linger.ms": 5,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            **named,
        }
    )


class Load:
    """Writes values to a topic at a steady rate until told to stop, in a thread of its own.

    Args:
        bootstrap: of the cluster.
        topic: it exists.
        values: the load ends with them, if they have an end.
        per_s: records a second.
    """

    def __init__(self, bootstrap: str, topic: str, values: Iterator[str], per_s: int) -> None:
        self._producer = idempotent_producer(bootstrap)
        self._topic = topic
        self._values = values
        self._pause_s = 10 / per_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failures: list[KafkaError] = []
        self.written: list[str] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop, and wait until all records are acknowledged.

        Raises:
            KafkaException: a record was refused.
        """
        self._stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)
        left = self._producer.flush(MESSAGE_TIMEOUT_MS / 1000) if error is None else 0
        if self._failures:
            raise KafkaException(self._failures[0])
        assert left == 0, f"{left} records of the load are not acknowledged"

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            for value in itertools.islice(self._values, 10):
                self._producer.produce(self._topic, value.encode(), on_delivery=self._on_delivery)
                self.written.append(value)
            self._producer.poll(0)

    def _on_delivery(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error)


class CommittedReader:
    """Reads all partitions of a topic from their start under read_committed, and goes on at the end, in a thread of its own."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.records: list[Committed] = []
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                **QUICK_RECONNECT,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "check.crcs": True,
            }
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        partitions = self._consumer.list_topics(self._topic, 60).topics[self._topic].partitions
        assert partitions, f"topic {self._topic} is not known"
        # 0, not OFFSET_BEGINNING, which librdkafka gives up on if the leader does not know yet that it leads a new topic
        self._consumer.assign([TopicPartition(self._topic, partition, 0) for partition in partitions])
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(JOIN_TIMEOUT_S)
        self._consumer.close()

    def has(self, condition: Callable[[list[Committed]], bool]) -> bool:
        """True if the records so far meet a condition.

        Raises:
            KafkaException: the reader was refused; or what else ended its thread.
        """
        if self._failure is not None:
            raise self._failure
        return condition(self.records)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self.records += [
                    Committed(message.partition(), message.offset(), message.key(), message.value())
                    for message in self._consumer.consume(5000, 0.2)
                    if _is_record(message)
                ]
        except BaseException as error:
            self._failure = error


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    if error.code() == KafkaError._AUTO_OFFSET_RESET or error.fatal():
        raise KafkaException(error)
    return False  # a node is down: librdkafka goes on by itself


class TransactionalWriter:
    """Writes whole transactions with one transactional id, committed or aborted as asked for.

    Args:
        bootstrap: of the cluster.
        transactional_id: of the producer.
    """

    def __init__(self, bootstrap: str, transactional_id: str) -> None:
        self._producer = idempotent_producer(bootstrap, transactional_id=transactional_id)
        _repeated(lambda: self._producer.init_transactions(60))

    def write(self, topic: str, records: Sequence[tuple[int, str]], *, commit: bool) -> None:
        """Write a transaction; one that the cluster wants aborted, as after a node's death, is aborted and written again.

        Args:
            topic: it exists.
            records: partitions and values.
            commit: False if the transaction ends with an abort, after all its records are in the log.

        Raises:
            KafkaException: the transaction failed for good.
        """
        while True:
            try:
                self._producer.begin_transaction()
                for partition, value in records:
                    self._producer.produce(topic, value.encode(), partition=partition)
                self._producer.flush(MESSAGE_TIMEOUT_MS / 1000)
                if commit:
                    _repeated(lambda: self._producer.commit_transaction(60))
                else:
                    _repeated(lambda: self._producer.abort_transaction(60))
                return
            except KafkaException as error:
                if not error.args[0].txn_requires_abort():
                    raise
                _repeated(lambda: self._producer.abort_transaction(60))


_ATTEMPTS: Final = 5


def _repeated(call: Callable[[], object]) -> None:
    """Repeat a call of the transactional producer for as long as librdkafka says that the same call may be repeated."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            call()
        except KafkaException as error:
            if attempt == _ATTEMPTS or not error.args[0].retriable():
                raise
        else:
            return
