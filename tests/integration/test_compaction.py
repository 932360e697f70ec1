"""Compacted topics, written and read by real clients, their files read by Kafka's own tool."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PythonTopicPartition

from esp.model.ids import TopicPartition as KafkaPartition
from esp.runtime.os_disk import OsDisk
from esp.storage.checkpoints import read_checkpoint
from esp.storage.layout import CLEANER_OFFSET_FILE
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from esp.testing.segment_files import read_batch_headers
from tests.integration.dump_log import dump, dumpable_files
from tests.integration.test_restart import create
from tests.integration.transactions import serve_transactions, transactional_producer

KEYS = 40
ROUNDS = 25
SETTINGS = {
    "log.cleaner.backoff.ms": "200",
    "log.initial.task.delay.ms": "100",
}
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": str(1024 * 1024),
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "60000",
}


def write(node: NodeProcess, topic: str, codec: str) -> dict[bytes, bytes | None]:
    """Write each key many times, and delete some; return the last value of each."""
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 13,
        }
    )
    latest: dict[bytes, bytes | None] = {}
    for number in range(KEYS * ROUNDS):
        key = b"key %d" % (number % KEYS)
        value = (
            None
            if number >= KEYS * (ROUNDS - 1) and number % 10 == 0
            else number.to_bytes(4, "big") + bytes((number * factor) % 251 for factor in range(6000))
        )
        producer.produce(topic, value, key, partition=0)
        latest[key] = value
        producer.poll(0)
    producer.produce(topic, b"the end", b"end", partition=0)
    latest[b"end"] = b"the end"
    assert producer.flush(60) == 0
    return latest


def wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it does not become true"
        time.sleep(0.1)


def by_confluent(node: NodeProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while not found or found[-1][1] != b"end":
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
        found.append((message.offset(), message.key(), message.value()))
    consumer.close()
    return found


def by_kafka_python(node: NodeProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    consumer = KafkaConsumer(
        bootstrap_servers=node.bootstrap, consumer_timeout_ms=30_000, isolation_level="read_committed"
    )
    consumer.assign([PythonTopicPartition(topic, 0)])
    consumer.seek_to_beginning()
    found = []
    for record in consumer:
        found.append((record.offset, record.key, record.value))
        if record.key == b"end":
            break
    consumer.close()
    return found


def by_aiokafka(node: NodeProcess, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    async def read() -> list[tuple[int, bytes, bytes | None]]:
        consumer = AIOKafkaConsumer(bootstrap_servers=node.bootstrap, isolation_level="read_committed")
        await consumer.start()
        partition = AioTopicPartition(topic, 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found: list[tuple[int, bytes, bytes | None]] = []
        while not found or found[-1][1] != b"end":
            record = await asyncio.wait_for(consumer.getone(), 30)
            found.append((record.offset, record.key, record.value))
        await consumer.stop()
        return found

    return asyncio.run(read())


@pytest.mark.timeout(240)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_compacted_topic_keeps_the_latest_record_of_each_key(
    fresh_node: NodeFactory, kafka_tools: KafkaTools, codec: str
) -> None:
    node = fresh_node(SETTINGS)
    create(node, "t", **COMPACTED)
    latest = write(node, "t", codec)
    count = KEYS * ROUNDS + 1

    def is_compacted() -> bool:
        """True if all but the active segment is clean: readers that come one after the other find the same then."""
        [directory] = node.log_dirs
        clean = read_checkpoint(OsDisk(), f"{directory}/{CLEANER_OFFSET_FILE}").get(KafkaPartition("t", 0), 0)
        return clean == max(int(path.stem) for path in Path(directory, "t-0").glob("*.log"))

    wait_for(is_compacted)
    if codec == "none":  # compressed, all of it may be in the active segment
        assert sum(header.record_count for header in read_batch_headers(node.log_dirs, "t", 0)) < count // 3
    read = by_confluent(node, "t")
    assert {key: value for _, key, value in read} == latest
    assert [offset for offset, _, _ in read] == sorted({offset for offset, _, _ in read})
    assert read[-1][0] == count - 1
    assert by_kafka_python(node, "t") == read
    assert by_aiokafka(node, "t") == read
    node.kill()
    node.start()
    assert by_confluent(node, "t") == read
    node.stop()
    dump(kafka_tools, dumpable_files(node.log_dirs, metadata=False), "--deep-iteration", is_compacted=True)


TRANSACTIONS = 150


def write_transactions(node: NodeProcess, topic: str) -> dict[bytes, bytes]:
    """Write each key in many transactions, of which one in three is aborted; return the last committed value of each."""
    producer = transactional_producer(node.bootstrap, "t")
    latest: dict[bytes, bytes] = {}
    for number in range(TRANSACTIONS):
        is_commit = number % 3 != 1
        producer.begin_transaction()
        written = {b"key %d" % ((number + step) % 7): b"%d " % number + bytes(5000) for step in range(3)}
        for key, value in written.items():
            producer.produce(topic, value if is_commit else b"aborted", key, partition=0)
        if is_commit:
            producer.commit_transaction(60)
            latest |= written
        else:
            assert producer.flush(60) == 0
            producer.abort_transaction(60)
    return latest


@pytest.mark.timeout(240)
def test_transactions_in_a_compacted_topic_leave_their_latest_records_and_the_markers_of_these(
    fresh_node: NodeFactory, kafka_tools: KafkaTools
) -> None:
    node = fresh_node(SETTINGS)
    serve_transactions(node.bootstrap, [node])
    create(node, "t", **COMPACTED | {"delete_retention_ms": "0", "segment_ms": "200"})
    latest = write_transactions(node, "t")
    producer = Producer({"bootstrap.servers": node.bootstrap})

    def is_compacted() -> bool:
        producer.produce("t", b"another segment", b"tick", partition=0)
        assert producer.flush(60) == 0
        headers = read_batch_headers(node.log_dirs, "t", 0)
        markers = sum(
            header.is_control for header in headers
        )  # of the transactions with the latest records, and the last one
        return markers < 7 and sum(header.record_count for header in headers) < TRANSACTIONS

    wait_for(is_compacted)
    producer.produce("t", b"the end", b"end", partition=0)
    assert producer.flush(60) == 0
    latest |= {b"tick": b"another segment", b"end": b"the end"}
    for read in (by_confluent, by_kafka_python, by_aiokafka):
        found = read(node, "t")
        assert {key: value for _, key, value in found} == latest
        assert not any(value == b"aborted" for _, _, value in found)
    before = by_confluent(node, "t")
    node.kill()
    node.start()
    assert by_confluent(node, "t") == before
    node.stop()
    dump(kafka_tools, dumpable_files(node.log_dirs, metadata=False), "--deep-iteration", is_compacted=True)


def test_records_without_a_key_are_refused_with_a_reason(fresh_node: NodeFactory) -> None:
    node = fresh_node(SETTINGS)
    create(node, "t", **COMPACTED)
    for codec in ("none", "gzip"):
        outcomes: list[object] = []
        producer = Producer({"bootstrap.servers": node.bootstrap, "compression.type": codec})
        producer.produce("t", b"v", on_delivery=lambda error, _message, seen=outcomes: seen.append(error))
        assert producer.flush(30) == 0
        assert [KafkaException(error).args[0].name() for error in outcomes] == ["INVALID_RECORD"]


# --- the process of the cleaner ------------------------------------------------------------------------------------------------------

LARGE_KEYS = 500
LARGE_ROUNDS = 48
THROTTLE = {"log.cleaner.io.max.bytes.per.second": "20000000"}
"""So slow that a round of 24 MB takes seconds."""


def node_with_dirt(fresh_node: NodeFactory) -> tuple[NodeProcess, dict[bytes, bytes | None]]:
    """A node that is about to compact a log so large that another process does it, and the latest values of its keys.

    Of all but its last segments nothing will be left but batches without records, more in a row than librdkafka takes one by one.
    """
    node = fresh_node({**SETTINGS, **THROTTLE, "log.cleaner.enable": "false"})
    create(node, "t", **COMPACTED)
    producer = Producer({"bootstrap.servers": node.bootstrap, "queue.buffering.max.messages": 1_000_000})
    latest: dict[bytes, bytes | None] = {}
    for number in range(LARGE_KEYS * LARGE_ROUNDS):
        key = b"key %d" % (number % LARGE_KEYS)
        latest[key] = number.to_bytes(4) + bytes(1000)
        producer.produce("t", latest[key], key, partition=0)
    latest[b"end"] = b"the end"
    producer.produce("t", latest[b"end"], b"end", partition=0)
    assert producer.flush(120) == 0
    node.settings["log.cleaner.enable"] = "true"
    node.restart()
    return node, latest


def leftovers(node: NodeProcess) -> list[str]:
    return [path.name for path in node.data_dir.rglob("*.cleaned")]


@pytest.mark.timeout(240)
def test_a_cleaner_process_that_is_killed_loses_nothing_and_its_round_is_done_again(fresh_node: NodeFactory) -> None:
    node, latest = node_with_dirt(fresh_node)
    wait_for(lambda: bool(leftovers(node)))
    [first] = node.child_pids()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: "was killed by signal 9" in node.stderr_path.read_text())
    assert f"t-0 cannot be compacted now: the worker process {first} was killed by signal 9" in node.output
    wait_for(lambda: bool(node.child_pids()))
    [second] = node.child_pids()
    assert second != first
    wait_for(lambda: "was compacted up to offset" in node.stderr_path.read_text())
    wait_for(lambda: not node.child_pids())  # it ends when nothing is left to be done
    assert not leftovers(node)
    read = by_confluent(node, "t")
    assert {key: value for _, key, value in read} == latest
    assert len(read) < LARGE_KEYS * LARGE_ROUNDS // 4
    node.kill()
    node.start()
    assert by_confluent(node, "t") == read


@pytest.mark.timeout(240)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_cleaner_process_ends_with_its_node(fresh_node: NodeFactory, is_killed: bool) -> None:
    node, latest = node_with_dirt(fresh_node)
    wait_for(lambda: bool(node.child_pids()))
    [cleaner] = node.child_pids()
    (node.kill if is_killed else node.stop)()
    wait_for(lambda: not os.path.exists(f"/proc/{cleaner}"))
    assert "cannot be compacted" not in node.stderr_path.read_text()
    node.start()
    assert {key: value for _, key, value in by_confluent(node, "t")} == latest
