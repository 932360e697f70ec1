"""Kafka's own reassign-partitions moves partitions of a cluster of four nodes while a producer writes (REASSIGN-1 to REASSIGN-5)."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic
from kio.schema.alter_partition_reassignments.v1.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from esp.model.errors import ErrorCode
from esp.protocol.trash import AlterPartitionReassignmentsRequest
from esp.simulation.checkers.client_history import check
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything
from tests.integration.wire import Wire

pytestmark = pytest.mark.kafka

MOVED_WITHIN_S = 60.0

Assignment = Mapping[int, Sequence[int]]


def begin(cluster: Cluster, topic: str, replicas: Sequence[int]) -> None:
    """Begin to move partition 0, whatever anybody would say about it."""
    partition = ReassignablePartition(partition_index=i32(0), replicas=tuple(map(BrokerId, replicas)))
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name=TopicName(topic), partitions=(partition,)),)
    )
    with Wire(cluster.nodes[1], timeout_s=30) as wire:
        (answer,) = wire.call(request).responses
    assert answer.partitions[0].error_code is ErrorCode.none


class Mover:
    """Runs the tool for one topic of a cluster."""

    def __init__(self, tools: KafkaTools, cluster: Cluster, topic: str, directory: Path) -> None:
        self._tools = tools
        self._cluster = cluster
        self._topic = topic
        self._file = directory / "reassignment.json"

    def run(self, tool: str, *arguments: str) -> str:
        """Run a tool and return what it printed."""
        done = self._tools.run(tool, "--bootstrap-server", self._cluster.bootstrap, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write(self, assignment: Assignment) -> None:
        """Make the file that --execute, --verify and --cancel take."""
        partitions = [
            {"topic": self._topic, "partition": number, "replicas": list(replicas)}
            for number, replicas in assignment.items()
        ]
        self._file.write_text(json.dumps({"version": 1, "partitions": partitions}))

    def tell(self, *options: str) -> str:
        """Give the tool the file."""
        return self.run("reassign-partitions", "--reassignment-json-file", str(self._file), *options)

    def execute(self, assignment: Assignment, *options: str) -> None:
        """Begin to move."""
        self.write(assignment)
        printed = self.tell("--execute", *options)
        started = ", ".join(f"{self._topic}-{number}" for number in assignment)
        plural = "s" if len(assignment) > 1 else ""
        assert f"Successfully started partition reassignment{plural} for {started.replace(', ', ',')}" in printed

    def is_complete(self) -> bool:
        """Whether the tool says so of every partition of the file."""
        printed = self.tell("--verify")
        outcomes = re.findall(r"^Reassignment of partition \S+ is (.*)\.$", printed, re.MULTILINE)
        assert outcomes, printed
        return set(outcomes) == {"completed"}

    def generate(self, brokers: str) -> Assignment:
        """The assignment that the tool proposes."""
        topics = self._file.with_name("topics.json")
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": self._topic}]}))
        printed = self.run(
            "reassign-partitions", "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", brokers
        )
        proposed = json.loads(printed.partition("Proposed partition reassignment configuration\n")[2])
        return {one["partition"]: one["replicas"] for one in proposed["partitions"]}


def new_topic(topic: str, assignment: Assignment) -> NewTopic:
    return NewTopic(topic, len(assignment), replica_assignment=[list(nodes) for nodes in assignment.values()])


def has_let_go(cluster: Cluster, node: int, topic: str) -> bool:
    """Whether a node has no directory of a topic's replicas any more, not even one that was put aside."""
    return not any(True for directory in cluster.nodes[node].log_dirs for _ in directory.glob(f"{topic}-*"))


def replicas(observer: Observer, topic: str) -> dict[int, set[int]]:
    return {number: set(one.replicas) for number, one in observer.partitions(topic).items()}


@pytest.mark.timeout(300)
def test_partitions_move_grow_and_shrink_under_load_and_lose_nothing(
    kafka_tools: KafkaTools, make_cluster: ClusterFactory, observe: Observe, topic: str, tmp_path: Path
) -> None:
    topic = topic[:40].replace("_", "-")
    cluster = make_cluster(4, {"log.segment.delete.delay.ms": "1000"}, brokers_only=(4,))
    observer = observe(cluster)
    mover = Mover(kafka_tools, cluster, topic, tmp_path)
    first, second = {0: [1, 2], 1: [2, 1]}, {0: [3, 4], 1: [4, 3]}
    observer.make_all([new_topic(topic, first)])
    observer.wait_until_whole(topic)
    with Load(cluster, topic) as load:
        load.wait_for_acks(500)
        assert {number: set(nodes) for number, nodes in mover.generate("3,4").items()} == {0: {3, 4}, 1: {3, 4}}
        mover.execute(second)
        eventually(mover.is_complete, MOVED_WITHIN_S)
        assert replicas(observer, topic) == {0: {3, 4}, 1: {3, 4}}
        assert mover.run("reassign-partitions", "--list") == "No partition reassignments found.\n"
        for node in (1, 2):
            eventually(partial(has_let_go, cluster, node, topic), 30)
        load.wait_for_acks(500)

        mover.execute({0: [3, 4, 1], 1: [4, 3, 2]})
        eventually(mover.is_complete, MOVED_WITHIN_S)
        observer.wait_until_whole(topic)
        mover.execute({0: [1], 1: [2]})
        eventually(mover.is_complete, MOVED_WITHIN_S)
        assert {number: one.leader for number, one in observer.partitions(topic).items()} == {0: 1, 1: 2}
        load.wait_for_acks(500)
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(cluster, topic)) == []


@pytest.mark.timeout(240)
def test_a_reassignment_to_a_dead_broker_is_seen_left_alone_and_cancelled(
    kafka_tools: KafkaTools, make_cluster: ClusterFactory, observe: Observe, topic: str, tmp_path: Path
) -> None:
    topic = topic[:40].replace("_", "-")
    cluster = make_cluster(4, brokers_only=(4,))
    observer = observe(cluster)
    mover = Mover(kafka_tools, cluster, topic, tmp_path)
    observer.make_all([new_topic(topic, {0: [1, 2], 1: [2, 3]})])
    observer.wait_until_whole(topic)
    cluster.nodes[4].stop()
    begin(cluster, topic, [4, 2])  # the tool looks first whether the broker is there

    mover.write({0: [4, 2]})
    assert f"Reassignment of partition {topic}-0 is still in progress" in mover.tell("--verify")
    listed = mover.run("reassign-partitions", "--list")
    assert f"{topic}-0: replicas: 4,2,1. adding: 4. removing: 1." in listed
    described = mover.run("topics", "--describe", "--topic", topic)
    assert re.search(r"Partition: 0\b.*Adding Replicas: 4\s+Removing Replicas: 1", described), described
    assert topic not in mover.run("topics", "--describe", "--under-replicated-partitions", "--topic", topic)

    mover.execute({1: [3, 1]}, "--additional")
    eventually(mover.is_complete, MOVED_WITHIN_S)
    mover.write({0: [4, 2]})
    assert f"Successfully cancelled partition reassignment for: {topic}-0" in mover.tell(
        "--cancel", "--preserve-throttles"
    )
    assert mover.run("reassign-partitions", "--list") == "No partition reassignments found.\n"
    eventually(lambda: replicas(observer, topic) == {0: {1, 2}, 1: {1, 3}}, 20)
