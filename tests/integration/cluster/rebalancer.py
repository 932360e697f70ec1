"""A cluster whose partitions are moved by the command line, ours or Kafka's, and what became of them."""

import io
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from esp.cli.app import run_tools
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    ConfigTarget,
)
from esp.rebalance.stages import BELIEVED_AFTER_MS
from esp.testing.cluster import Cluster
from tests.integration.cluster.observer import Observer
from tests.integration.conftest import eventually

MIB = 1024 * 1024
RECORD = os.urandom(64 * 1024)
HEARD_WITHIN_S = BELIEVED_AFTER_MS / 1000
"""For what the controller has decided, which the brokers know some milliseconds later: the tools wait no longer for it."""


class Said(NamedTuple):
    """What a command printed, what it said on stderr, and its exit status."""

    out: str
    err: str
    status: int


def run_here(*command: str) -> Said:
    """Run a command in this process, which takes a tenth of the time that a new one needs."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = run_tools(list(command))
    out.seek(0)
    return Said(out.read(), err.getvalue(), status)


class Rebalancer:
    """Runs commands against a cluster of three, and looks at what became of them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.observer = Observer(cluster)

    @property
    def bootstrap(self) -> str:
        """The nodes that run: kafka-python leaves a socket open for every one that does not."""
        return ",".join(f"{node.host}:{node.port}" for node in self.cluster.nodes.values() if node.is_running)

    def __call__(self, *command: str, status: int = 0) -> str:
        """Run a command in this process; return what it printed, or what it said on stderr if it had to fail."""
        said = run_here(*command, "--bootstrap-server", self.bootstrap)
        assert said.status == status, (command, said)
        return said.err if status else said.out

    def begin(self, *command: str) -> "subprocess.Popen[str]":
        """Run a command in a process of its own, which is there to be killed."""
        arguments = [sys.executable, "-m", "esp", *command, "--bootstrap-server", self.cluster.bootstrap]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def make_topic(self, topic: str, replicas: Sequence[Sequence[int]], mib: int) -> None:
        """Create a topic with its partitions where they are wanted, and so much in each."""
        new = NewTopic(topic, len(replicas), replica_assignment=[list(each) for each in replicas])
        self.observer.make_all([new])
        self.observer.wait_until_whole(topic)
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 5, "log_level": 0})
        for number in range(len(replicas)):
            for _ in range(mib * MIB // len(RECORD)):
                producer.produce(topic, RECORD, partition=number)
                producer.poll(0)
        assert producer.flush(60) == 0

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        """Where the partitions are, in the controller's order."""
        with ReassignmentsAdmin(self.bootstrap) as admin:
            found = admin.topics([topic])[topic]
            return [found[number].replicas for number in sorted(found)]

    def wait_for_replicas(self, topic: str, *wanted: tuple[int, ...] | set[int]) -> None:
        """Wait until the partitions are there, in that order if it is a tuple: a broker hears of a move's end a moment after the tool."""

        def are_there() -> bool:
            return [type(want)(each) for each, want in zip(self.replicas(topic), wanted, strict=True)] == list(wanted)

        eventually(are_there, HEARD_WITHIN_S)

    def wait_until_unthrottled(self, topic: str) -> None:
        """Wait until nothing slows the topic, nor brokers that are alive: each of them tells what it has heard."""
        eventually(lambda: self.throttles(topic) == {}, HEARD_WITHIN_S)

    def is_moving(self, topic: str) -> bool:
        """Whether a partition of the topic is being moved."""
        with ReassignmentsAdmin(self.bootstrap) as admin:
            return any(partition.topic == topic for partition in admin.reassignments())

    def throttles(self, topic: str) -> dict[ConfigTarget, dict[str, str]]:
        """What slows replicas of the topic, or brokers that are alive."""
        rates = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE)
        lists = (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS)
        with ReassignmentsAdmin(self.bootstrap) as admin:
            alive = [str(node) for node, broker in admin.brokers().items() if not broker.fenced]
            found = admin.settings([ALL_BROKERS, *(ConfigTarget(broker=each) for each in alive)], rates)
            found |= admin.settings([ConfigTarget(topic=topic)], lists)
        return {target: settings for target, settings in found.items() if settings}
