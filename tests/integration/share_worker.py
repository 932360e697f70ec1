"""A member of a share group, of librdkafka, in a process of its own: ``python -m tests.integration.share_worker BOOTSTRAP GROUP TOPIC``.

It says of each record what :func:`judge` says of its number, and writes lines with tabs between words: ``got``, number, delivery count and
time; ``accepted`` or ``unsure``, number, delivery count and time. Times are of the monotonic clock, in nanoseconds. ``ShareWorker.java`` is
the same for Kafka's own client.
"""

import signal
import sys
import time
from typing import Any

from confluent_kafka import AcknowledgeType, KafkaException, ShareConsumer


def is_poison(number: int) -> bool:
    """True for one record in twenty: no member can do anything with it."""
    return number % 20 == 7


def judge(number: int) -> AcknowledgeType:
    """Poison is rejected, or released in each attempt."""
    if not is_poison(number):
        return AcknowledgeType.ACCEPT
    return AcknowledgeType.REJECT if number % 40 == 7 else AcknowledgeType.RELEASE


def tell(word: str, message: Any) -> None:
    """Say what became of a record."""
    sys.stdout.write(f"{word}\t{int(message.value())}\t{message.delivery_count()}\t{time.monotonic_ns()}\n")
    sys.stdout.flush()


def work(consumer: Any) -> None:
    """Take what there is, and acknowledge it."""
    messages = []
    for message in consumer.poll(0.5):
        if message.error() is not None:
            sys.stderr.write(f"{message.error()}\n")
            continue
        tell("got", message)
        consumer.acknowledge(message, judge(int(message.value())))
        messages.append(message)
    if not messages:
        return
    refused: set[int] | None = None
    try:
        results = consumer.commit_sync(30)
        refused = {partition.partition for partition, error in results.items() if error is not None}
    except KafkaException as error:
        sys.stderr.write(f"{error}\n")
    for message in messages:
        if not is_poison(int(message.value())):
            is_sure = refused is not None and message.partition() not in refused
            tell("accepted" if is_sure else "unsure", message)


def main(bootstrap: str, group: str, topic: str) -> None:
    """Work until told to stop."""
    is_stopped = False

    def stop(*_: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    settings = {"group.id": group, "share.acknowledgement.mode": "explicit", "log_level": 0}
    consumer = ShareConsumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    while not is_stopped:
        try:
            work(consumer)
        except KafkaException as error:
            sys.stderr.write(f"{error}\n")
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
