"""The load of the demonstration of rebalancing: a topic filled at once, then a steady load of which every record is remembered."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from esp.simulation.checkers.client_history import Outcome, Read, Sent

FILL_BYTES: Final = 10_000
STEADY_BYTES: Final = 1000
STEADY_KEYS: Final = 24
_TURN_S: Final = 0.02
_RETRIED_FOR_MS: Final = 120_000
_READ_WITHIN_S: Final = 60.0
_DEFAULTS: Final = {"enable.idempotence": True, "message.timeout.ms": _RETRIED_FOR_MS, "log_level": 0}


class RebalanceLoad:
    """Numbered records of some keys, with acks=all, and what became of each.

    Args:
        bootstrap: of the cluster.
        topic: where they go.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._numbers: defaultdict[str, int] = defaultdict(int)
        self._ends = threading.Event()
        self._thread: threading.Thread | None = None
        self.sent: list[Sent] = []
        self.errors: list[KafkaError] = []
        self.waits: list[tuple[float, float]] = []
        """The monotonic time and the latency, both in seconds, of every acknowledged record of the steady load."""

    def fill(self, size_bytes: int, keys: int) -> None:
        """Write so many bytes, and wait until they are acknowledged."""
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "linger.ms": 50, "batch.size": 1_000_000, **_DEFAULTS}
        )
        for index in range(size_bytes // FILL_BYTES):
            while True:
                try:
                    self._send(producer, f"f{index % keys}", FILL_BYTES, _not_measured)
                    break
                except BufferError:
                    producer.poll(0.1)
            producer.poll(0)
        producer.flush(120)

    def start(self, records_per_s: int) -> None:
        """Begin the steady load."""
        self._thread = threading.Thread(target=self._produce, args=(records_per_s,), daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """End it, and wait until every record's fate is known."""
        self._ends.set()
        assert self._thread is not None, "it was started"
        self._thread.join()

    def p99_ms(self, begin_s: float, end_s: float) -> float:
        """The 99th percentile of the waits for acknowledgements that came between two moments."""
        waits = sorted(wait for at, wait in self.waits if begin_s <= at < end_s)
        return waits[int(len(waits) * 0.99)] * 1000 if waits else float("nan")

    def _produce(self, records_per_s: int) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 0, **_DEFAULTS})
        began_s = time.monotonic()
        count = 0
        while not self._ends.wait(_TURN_S):
            due = int((time.monotonic() - began_s) * records_per_s)
            for _ in range(due - count):
                self._send(producer, f"k{count % STEADY_KEYS}", STEADY_BYTES, self._measure(time.monotonic()))
                count += 1
            producer.poll(0)
        producer.flush(_RETRIED_FOR_MS / 1000)

    def _measure(self, sent_s: float) -> Callable[[float], None]:
        return lambda at_s: self.waits.append((at_s, at_s - sent_s))

    def _send(self, producer: Producer, key: str, size_bytes: int, on_ack: Callable[[float], None]) -> None:
        number = self._numbers[key]
        index = len(self.sent)

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(error)
                return
            on_ack(time.monotonic())
            self.sent[index] = Sent(key, number, Outcome.ACKED, message.partition(), message.offset())

        producer.produce(self._topic, b"%d" % number + b" " * size_bytes, key.encode(), on_delivery=on_delivery)
        self._numbers[key] = number + 1
        self.sent.append(Sent(key, number, Outcome.UNKNOWN))


def _not_measured(_at_s: float) -> None:
    """Ignore the latency of a record of the filling, which says nothing."""


def read_back(bootstrap: str, topic: str, partitions: int) -> list[Read]:
    """Read all of a topic, from its start to its end."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    left = set(range(partitions))
    read: list[Read] = []
    deadline_s = time.monotonic() + _READ_WITHIN_S
    while left and time.monotonic() < deadline_s:
        for message in consumer.consume(1000, 0.5):
            deadline_s = time.monotonic() + _READ_WITHIN_S
            error, number = message.error(), message.partition()
            key, value = message.key(), message.value()
            if error is None and number is not None and key is not None and value is not None:
                read.append(Read(number, message.offset() or 0, key.decode(), int(value)))
            elif error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name has the underscore
                left.discard(number)
    consumer.close()
    return read
