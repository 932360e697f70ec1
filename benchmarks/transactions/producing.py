"""Producing in transactions of 20 ms: by Kafka's own client, which speaks version 2 of the protocol, and by librdkafka, which speaks 1."""

import subprocess
import time
from typing import Final

from confluent_kafka import Producer

from benchmarks.batches import PARTITIONS
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import create_topic, delete_topic
from benchmarks.cost import CostMeter
from benchmarks.stage import Stage
from benchmarks.transactions.metrics import JAVA_PRODUCE, LIBRDKAFKA_PRODUCE
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess

RECORD_SIZE: Final = 200
BATCH_SIZE: Final = 65_536
TRANSACTION_MS: Final = 20
RECORDS: Final = 2_500_000
"""Half a gigabyte in each round."""

_TIMEOUT_S: Final = 600.0
_POLL_EVERY: Final = 1000
_SETTLING_S: Final = 0.3
"""The wait for the markers of the last transaction, in seconds."""


def produce_with_java(node: NodeProcess, topic: str, records: int) -> None:
    """Run ``kafka-producer-perf-test``.

    Raises:
        RuntimeError: it failed.
    """
    command = KafkaTools.find().command(
        "producer-perf-test",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(RECORD_SIZE), "--throughput", "-1"),
        *("--transactional-id", "perf", "--transaction-duration-ms", str(TRANSACTION_MS)),
        *("--bootstrap-server", node.bootstrap, "--command-property", f"batch.size={BATCH_SIZE}", "linger.ms=5"),
        heap="512m",
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode or f"{records} records sent" not in done.stdout:
        raise RuntimeError(f"kafka-producer-perf-test failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def produce_with_librdkafka(node: NodeProcess, topic: str, records: int) -> None:
    """Produce with librdkafka, in transactions as long as those of the tool."""
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "transactional.id": "librdkafka",
            "batch.size": BATCH_SIZE,
            "linger.ms": 5,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    value = bytes(RECORD_SIZE)
    sent = 0
    while sent < records:
        producer.begin_transaction()
        end_s = time.perf_counter() + TRANSACTION_MS / 1000
        while sent < records and time.perf_counter() < end_s:
            for _ in range(min(_POLL_EVERY, records - sent)):
                producer.produce(topic, value)
                sent += 1
            producer.poll(0)
        producer.commit_transaction(_TIMEOUT_S)


def measure_producing(stage: Stage) -> None:
    """Measure both clients, each with a topic of its own in each round."""
    records = stage.scaled(RECORDS)
    works = ((JAVA_PRODUCE, produce_with_java), (LIBRDKAFKA_PRODUCE, produce_with_librdkafka))
    for number in stage.rounds():
        for metric, produce in works:
            topic = f"{metric.key}-{number + stage.extent.warm_up_rounds}"
            for name, node in stage.in_turn(number):
                create_topic(node.port, topic, PARTITIONS)
                with CostMeter(node) as cost:
                    produce(node, topic, records)
                    time.sleep(_SETTLING_S)
                stage.take(name, {metric: cost.all_s / (records * RECORD_SIZE / 1e9)}, number)
                delete_topic(node.port, topic)
                wait_until_deleted(node, topic)
