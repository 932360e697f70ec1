"""Reading with librdkafka's consumer in tests."""

import time

from confluent_kafka import Consumer


def read_values(consumer: Consumer, count: int, timeout_s: float = 60) -> list[bytes]:
    """Return the values of the next messages of a consumer that has subscribed, ``count`` of them or a few more.

    Raises:
        AssertionError: a message is an error, or there are too few in time.
    """
    values: list[bytes] = []
    deadline = time.monotonic() + timeout_s
    while len(values) < count:
        assert time.monotonic() < deadline, f"{len(values)} values of {count} within {timeout_s} s"
        for message in consumer.consume(count - len(values), 0.2):
            assert message.error() is None, message.error()
            values.append(message.value())
    return values
