"""A producer that writes numbers while a test does things to the cluster, and a reader of all that is in the topic afterwards."""

import itertools
import threading

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.integration.conftest import eventually


class SteadyWriter:
    """Writes numbers to the topic ``t`` until it is stopped, and knows which were acknowledged.

    Args:
        settings: of the client, by librdkafka's names.
        first: the first number.
        pause_s: between two records.
    """

    def __init__(self, settings: dict[str, object], first: int = 0, pause_s: float = 0.002) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._first = first
        self._pause_s = pause_s
        self._producer = Producer({**settings, "enable.idempotence": True, "message.timeout.ms": 120_000})
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in itertools.count(self._first):
            if self._stops.wait(self._pause_s):
                break
            self._producer.produce(
                "t",
                b"%d" % number,
                on_delivery=lambda error, _message, number=number: self._note(error, number),
            )
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def _note(self, error: object, number: int) -> None:
        if error is None:
            self.acknowledged.append(number)
        else:
            self.errors.append(str(error))

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()

    def until_more(self, count: int = 100) -> None:
        """Wait until as many more records are acknowledged."""
        goal = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= goal, 90)


def read_all(settings: dict[str, object]) -> list[int]:
    """The numbers in the topic ``t``, in the order of their offsets."""
    consumer = Consumer({**settings, "group.id": "readers", "enable.auto.commit": False})
    end = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)[1]
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[int] = []
    while len(found) < end:
        for message in consumer.consume(1000, 30):
            assert message.error() is None, message.error()
            found.append(int(message.value()))
    consumer.close()
    return found
