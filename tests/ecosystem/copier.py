"""A program that copies records of one topic to another in transactions, with the offsets: one for each of three client families.

    python -m tests.ecosystem.copier librdkafka BOOTSTRAP TRANSACTIONAL_ID GROUP SOURCE TARGET [PARTITION]

Without a partition it is a member of the group, which tells its coordinator so with its offsets (KIP-447). Every fifth transaction is
aborted when all is written, and done again. After an error that ends the producer the program ends with status 1, and with status 3 if
the client stalls; the stage that started the program starts it again.
"""

import asyncio
import faulthandler
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import confluent_kafka
import kafka
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaException
from kafka.structs import OffsetAndMetadata

from tests.ecosystem.clients import MESSAGE_TIMEOUT_MS, QUICK_RECONNECT, idempotent_producer
from tests.integration.kafka_python import subscribe

_LOGGER: Final = logging.getLogger(__name__)

MOST_RECORDS: Final = 50
ABORTED_EVERY: Final = 5
CALL_TIMEOUT_S: Final = 60
STALLED_AFTER_S: Final = 90
STALLED_STATUS: Final = 3
TRANSACTION_TIMEOUT_MS: Final = 120_000
SESSION_TIMEOUT_MS: Final = 10_000


class Job(NamedTuple):
    """The arguments of a copier."""

    bootstrap: str
    transactional_id: str
    group: str
    source: str
    target: str
    partition: int | None


class Copied(NamedTuple):
    """A record on its way."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


Progress = Callable[[], None]
"""Called when something was done, or there was nothing to do."""


def first_offsets(records: Iterable[Copied]) -> dict[int, int]:
    """Return the offset of each partition's first record."""
    found: dict[int, int] = {}
    for record in records:
        found.setdefault(record.partition, record.offset)
    return found


def next_offsets(records: Iterable[Copied]) -> dict[int, int]:
    """Return the offset behind each partition's last record."""
    return {record.partition: record.offset + 1 for record in records}


def _commits() -> Iterator[bool]:
    """Yield for each transaction True if it is to be committed."""
    number = 0
    while True:
        number += 1
        yield number % ABORTED_EVERY != 0


def copy_by_librdkafka(job: Job, progress: Progress) -> None:
    """Copy until the process is killed."""
    producer = idempotent_producer(
        job.bootstrap,
        transactional_id=job.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        message_timeout_ms=TRANSACTION_TIMEOUT_MS,
        debug="eos",
        log_level=7,
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            **QUICK_RECONNECT,
            "group.id": job.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "partition.assignment.strategy": "range",
        }
    )
    batch: list[Copied] = []

    def forget(*_: object) -> None:
        batch.clear()

    if job.partition is None:
        consumer.subscribe([job.source], on_assign=forget, on_revoke=forget, on_lost=forget)
    else:
        consumer.assign([confluent_kafka.TopicPartition(job.source, job.partition)])
    for commit in _commits():
        batch.clear()
        while not batch or len(batch) < MOST_RECORDS:
            message = consumer.poll(0.2)
            progress()
            if message is None and batch:
                break
            if message is not None and message.error() is None:
                batch.append(Copied(message.partition(), message.offset(), message.key(), message.value()))
        try:
            producer.begin_transaction()
            for record in batch:
                producer.produce(job.target, record.value, record.key, partition=record.partition)
            producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(job.source, *item) for item in next_offsets(batch).items()],
                consumer.consumer_group_metadata(),
                CALL_TIMEOUT_S,
            )
            if commit:
                _repeated(lambda: producer.commit_transaction(CALL_TIMEOUT_S))
                continue
            producer.flush(MESSAGE_TIMEOUT_MS / 1000)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _LOGGER.info("%s: %s", job.transactional_id, error)
        _repeated(lambda: producer.abort_transaction(CALL_TIMEOUT_S))
        for partition, offset in first_offsets(batch).items():
            consumer.seek(confluent_kafka.TopicPartition(job.source, partition, offset))


def _repeated(call: Callable[[], object]) -> None:
    while True:
        try:
            call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
        else:
            return


def copy_by_kafka_python(job: Job, progress: Progress) -> None:
    """Copy until the process is killed."""
    servers = job.bootstrap.split(",")
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        transactional_id=job.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        acks="all",
    )
    producer.init_transactions()
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers,
        group_id=job.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    if job.partition is None:
        subscribe(consumer, job.source)
    else:
        consumer.assign([kafka.TopicPartition(job.source, job.partition)])
    for commit in _commits():
        batch: list[Copied] = []
        while not batch:
            polled = consumer.poll(timeout_ms=200, max_records=MOST_RECORDS)
            progress()
            batch = [Copied(r.partition, r.offset, r.key, r.value) for records in polled.values() for r in records]
        try:
            producer.begin_transaction()
            for record in batch:
                producer.send(job.target, record.value, record.key, partition=record.partition)
            offsets = {
                kafka.TopicPartition(job.source, partition): OffsetAndMetadata(offset, "", -1)
                for partition, offset in next_offsets(batch).items()
            }
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
            if commit:
                producer.commit_transaction()
                continue
            producer.flush(CALL_TIMEOUT_S)
        except kafka.errors.KafkaError as error:
            _LOGGER.info("%s: %r", job.transactional_id, error)
        producer.abort_transaction()
        for partition, offset in first_offsets(batch).items():
            consumer.seek(kafka.TopicPartition(job.source, partition), offset)


def copy_by_aiokafka(job: Job, progress: Progress) -> None:
    """Copy until the process is killed; this client tells no coordinator which member it is, so that it needs a partition of its own."""
    assert job.partition is not None
    asyncio.run(_copy_by_aiokafka(job, job.partition, progress))


async def _copy_by_aiokafka(job: Job, partition: int, progress: Progress) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=job.bootstrap,
        transactional_id=job.transactional_id,
        transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
    )
    await producer.start()
    await producer.begin_transaction()  # waits for the producer id: the last process's transaction has ended then
    await producer.abort_transaction()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=job.bootstrap,
        group_id=job.group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    source = AioTopicPartition(job.source, partition)
    consumer.assign([source])
    for commit in _commits():
        batch: list[Copied] = []
        while not batch:
            polled = await consumer.getmany(timeout_ms=200, max_records=MOST_RECORDS)
            progress()
            batch = [Copied(r.partition, r.offset, r.key, r.value) for records in polled.values() for r in records]
        await producer.begin_transaction()
        sent = [await producer.send(job.target, r.value, r.key, partition=r.partition) for r in batch]
        await producer.send_offsets_to_transaction({source: batch[-1].offset + 1}, job.group)
        await asyncio.gather(*sent)
        if commit:
            await producer.commit_transaction()
        else:
            await producer.abort_transaction()
            consumer.seek(source, batch[0].offset)


FAMILIES: Final[dict[str, Callable[[Job, Progress], None]]] = {
    "librdkafka": copy_by_librdkafka,
    "kafka-python": copy_by_kafka_python,
    "aiokafka": copy_by_aiokafka,
}


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    for library in ("kafka", "aiokafka"):
        logging.getLogger(library).setLevel(logging.ERROR)
    family, *words = sys.argv[1:]
    job = Job(*words[:5], partition=int(words[5]) if len(words) > 5 else None)
    last = time.monotonic()

    def progress() -> None:
        nonlocal last
        last = time.monotonic()

    def watch() -> None:
        while time.monotonic() - last < STALLED_AFTER_S:
            time.sleep(1)
        _LOGGER.error("stalled")
        faulthandler.dump_traceback()
        os._exit(STALLED_STATUS)

    threading.Thread(target=watch, daemon=True).start()
    FAMILIES[family](job, progress)
    return 0


if __name__ == "__main__":
    sys.exit(main())
