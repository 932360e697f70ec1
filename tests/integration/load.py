"""A keyed load of an idempotent librdkafka producer that keeps its history, and the reader that reads all of it back."""

import threading
import time
from collections import defaultdict
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from esp.simulation.checkers.client_history import Outcome, Read, Sent


class Served(Protocol):
    """A node or a cluster: something that clients connect to."""

    @property
    def bootstrap(self) -> str:
        """What clients take as ``bootstrap.servers``."""


KEYS = 12
MAX_UNACKED = 2000
PAUSE_S = 0.001
"""The load is there to be interrupted, not to fill the disk."""


class Load:
    """Sends numbered records of a dozen keys with acks=all until told to stop; used as a context manager.

    Args:
        node: may be killed and started again while the load runs, or be a cluster of which some nodes are.
        topic: where the records go; its partitions are chosen by the key.
        padding: bytes that each value is made longer by.
        pause_s: after every ten records.
        settings: librdkafka's, over the defaults below.
    """

    def __init__(
        self, node: Served, topic: str, *, padding: int = 0, pause_s: float = PAUSE_S, **settings: object
    ) -> None:
        self._topic = topic
        self._padding = b" " * padding
        self._pause_s = pause_s
        self._producer = Producer(
            {
                "bootstrap.servers": node.bootstrap,
                "enable.idempotence": True,
                "message.timeout.ms": 120_000,
                "linger.ms": 1,
                "batch.num.messages": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "topic.metadata.refresh.fast.interval.ms": 50,
                "log_level": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._unacked = 0
        self.acked = 0
        self.sent: list[Sent] = []
        self.errors: list[KafkaError] = []
        self.longest_gap_s = 0.0
        """The longest time between two acknowledgements so far."""
        self._last_ack = time.monotonic()

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def wait_for_acks(self, count: int, timeout_s: float = 60) -> None:
        """Wait until ``count`` more records are acknowledged."""
        target = self.acked + count
        deadline = time.monotonic() + timeout_s
        while self.acked < target:
            assert time.monotonic() < deadline, f"{target - self.acked} acknowledgements missing after {timeout_s} s"
            time.sleep(0.002)

    def finish(self) -> None:
        """Stop sending and wait until every record's fate is known."""
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(60) == 0, "records whose fate is open after 60 s"

    def _run(self) -> None:
        while not self._stopping.is_set():
            for _ in range(10):
                key = f"k{len(self.sent) % KEYS}" if self._unacked < MAX_UNACKED else None
                if key is not None:
                    self._send(key)
            self._producer.poll(0)
            time.sleep(self._pause_s)

    def _send(self, key: str) -> None:
        number = self._numbers[key]
        self._numbers[key] = number + 1
        index = len(self.sent)
        self.sent.append(Sent(key, number, Outcome.UNKNOWN))
        self._unacked += 1

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            self._unacked -= 1
            if error is not None:
                self.errors.append(error)
            else:
                now = time.monotonic()
                self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
                self._last_ack = now
                self.acked += 1
                self.sent[index] = Sent(key, number, Outcome.ACKED, message.partition(), message.offset())

        self._producer.produce(self._topic, b"%d" % number + self._padding, key.encode(), on_delivery=on_delivery)


def read_everything(node: Served, topic: str, timeout_s: float = 60) -> list[Read]:
    """Read all partitions of the topic from log start to end, checksums checked; ``timeout_s`` is how long nothing may come."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    try:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        open_partitions = set(partitions)
        read: list[Read] = []
        deadline = time.monotonic() + timeout_s
        while open_partitions:
            assert time.monotonic() < deadline, f"nothing of partitions {open_partitions} for {timeout_s} s"
            for message in consumer.consume(10_000, 0.2):
                deadline = time.monotonic() + timeout_s
                error = message.error()
                if error is None:
                    read.append(
                        Read(message.partition(), message.offset(), message.key().decode(), int(message.value()))
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition())
                else:
                    raise KafkaException(error)
        return read
    finally:
        consumer.close()
