"""A replica moves between the data directories of a node, asked for by Kafka's own tool, through kills of the node; no record is lost."""

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import eventually

RECORDS = 2_000
SIZE = 10_000
KILLS = 2
SLOW, FAST = 400_000, 100_000_000
"""Bytes per second: the move would take 50 s, so that both kills come during it, and ends soon when it may."""


def names(node: NodeProcess, number: int, topic: str) -> list[str]:
    return [path.name for path in node.log_dirs[number].glob(f"{topic}-0*") if not path.name.endswith("-delete")]


def read_all(node: NodeProcess, topic: str) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read: list[bytes | None] = []
    while len(read) < RECORDS and (messages := consumer.consume(RECORDS, 20)):
        read += [message.key() for message in messages if message.error() is None]
    consumer.close()
    return read


@pytest.mark.timeout(180)
def test_a_move_that_kafka_s_tool_asks_for_survives_kills_of_the_node_and_loses_nothing(
    fresh_node: NodeFactory, kafka_tools: KafkaTools, topic: str, tmp_path: Path
) -> None:
    paths = [str(tmp_path / name) for name in ("first", "second")]
    node = fresh_node({"log.dirs": ",".join(paths), "metadata.log.dir": paths[0], "log.segment.bytes": "1048576"})
    producer = Producer({"bootstrap.servers": node.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce(topic, bytes(SIZE), b"%d" % number, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    origin = next(number for number in (0, 1) if names(node, number, topic))
    target = 1 - origin
    plan = tmp_path / "plan.json"
    move = {"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [paths[target]]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    common = ("--bootstrap-server", node.bootstrap, "--reassignment-json-file", str(plan))

    def execute(rate: int) -> None:
        options = ("--execute", "--replica-alter-log-dirs-throttle", str(rate))
        begun = kafka_tools.run("reassign-partitions", *common, *options)
        assert "Successfully started moving log directory" in begun.stdout, begun.stdout + begun.stderr

    execute(SLOW)
    for _ in range(KILLS):
        assert names(node, target, topic)[0].endswith("-future")
        node.kill()
        node.start()
    execute(FAST)
    eventually(lambda: names(node, target, topic) == [f"{topic}-0"] and not names(node, origin, topic), 60)
    verified = kafka_tools.run("reassign-partitions", *common, "--verify")
    assert "completed successfully" in verified.stdout, verified.stdout + verified.stderr
    node.kill()
    node.start()
    assert read_all(node, topic) == [b"%d" % number for number in range(RECORDS)]
