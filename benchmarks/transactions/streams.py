"""Kafka Streams' word count under exactly_once_v2, from an input that is there until all of it is committed."""

import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from benchmarks.batches import PARTITIONS
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import create_topic, delete_topic
from benchmarks.cost import CostMeter
from benchmarks.stage import Stage
from benchmarks.transactions.metrics import STREAMS_CPU, STREAMS_WALL
from esp.testing.kafka_tools import ECOSYSTEM_POM, KafkaTools
from esp.testing.node_process import NodeProcess

LINES: Final = 1_000_000
ROUNDS: Final = 3
"""The most rounds: one takes minutes."""

INPUT: Final = "streams-plaintext-input"
OUTPUT: Final = "streams-wordcount-output"
MAIN_CLASS: Final = "org.apache.kafka.streams.examples.wordcount.WordCountDemo"
GROUP: Final = "streams-wordcount"
_VOCABULARY: Final = 10_000
_WORDS_A_LINE: Final = 5
_TIMEOUT_S: Final = 1800.0
_POLL_INTERVAL_S: Final = 0.5
_ASK_TIMEOUT_S: Final = 5.0
_STOP_TIMEOUT_S: Final = 60.0


def _fill(node: NodeProcess, lines: int) -> None:
    rng = random.Random(1)
    words = [f"word{number}" for number in range(_VOCABULARY)]
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 20, "log_level": 0})
    for number in range(lines):
        line = " ".join(rng.choices(words, k=_WORDS_A_LINE))
        producer.produce(INPUT, line, partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush(_TIMEOUT_S)
    producer.flush(_TIMEOUT_S)


def _committed(node: NodeProcess) -> int:
    """The lines that are committed so far; 0 as long as the broker has no coordinator for the group."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": GROUP, "log_level": 0})
    try:
        found = consumer.committed([Partition(INPUT, number) for number in range(PARTITIONS)], _ASK_TIMEOUT_S)
    except KafkaException:
        return 0
    finally:
        consumer.close()
    return sum(max(0, each.offset) for each in found)


def count_words(node: NodeProcess, directory: Path, lines: int) -> float:
    """Run the word count until its input is committed, and return the seconds.

    Raises:
        RuntimeError: it ended, or takes too long.
    """
    store = directory / "streams-store"
    properties = directory / "streams.properties"
    properties.write_text(
        f"bootstrap.servers={node.bootstrap}\nprocessing.guarantee=exactly_once_v2\nstate.dir={store}\n"
        f"statestore.cache.max.bytes=0\nreplication.factor=1\n"
        f"consumer.session.timeout.ms=6000\nconsumer.heartbeat.interval.ms=1000\n"
    )
    command = KafkaTools.find(ECOSYSTEM_POM).command(MAIN_CLASS, str(properties), heap="512m")
    output = directory / "streams.out"
    began_s = time.perf_counter()
    with output.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    try:
        while _committed(node) < lines:
            if process.poll() is not None or time.perf_counter() > began_s + _TIMEOUT_S:
                raise RuntimeError(f"the word count does not end:\n{output.read_text()[-3000:]}")
            time.sleep(_POLL_INTERVAL_S)
        return time.perf_counter() - began_s
    finally:
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
        shutil.rmtree(store, ignore_errors=True)


def measure_streams(stage: Stage) -> None:
    """Measure word counts, each with new topics; the one of the first round does not count."""
    lines = stage.scaled(LINES)
    for number in range(-1, min(ROUNDS, stage.extent.rounds)):
        for name, node in stage.in_turn(number):
            for topic in (INPUT, OUTPUT):
                create_topic(node.port, topic, PARTITIONS)
            _fill(node, lines)
            with CostMeter(node) as cost:
                wall_s = count_words(node, stage.directory, lines)
            stage.take(name, {STREAMS_WALL: wall_s, STREAMS_CPU: cost.all_s}, number)
            _forget(node)


def _forget(node: NodeProcess) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while True:  # an instance of Streams does not leave its group: its session has to end
        try:
            admin.delete_consumer_groups([GROUP])[GROUP].result(_TIMEOUT_S)
            break
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)
    for topic in admin.list_topics(timeout=_STOP_TIMEOUT_S).topics:
        if topic.startswith("streams-"):
            delete_topic(node.port, topic)
            wait_until_deleted(node, topic)
