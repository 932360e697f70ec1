"""``esp produce`` while leaders are killed and moved: every line is there once, and in order in its partition."""

import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe, Observer

PARTITIONS = 3
KEYS = 12
LINES_AT_ONCE = 2000
PAUSE_S = 0.02
DONE_WITHIN_S = 90


class Lines:
    """``esp produce`` with lines of a key and a number that flow until told to stop; a context manager.

    Args:
        cluster: where they go.
        topic: its name.
        output: a file for what the command says.
        arguments: further ones of the command.
    """

    def __init__(self, cluster: Cluster, topic: str, output: Path, *arguments: str) -> None:
        self._output = output
        command = ("produce", "--topic", topic, "--bootstrap-server", cluster.bootstrap, *arguments)
        with output.open("wb") as told:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "esp", *command], stdin=subprocess.PIPE, stdout=told, stderr=told
            )
        self.count = 0

    def __enter__(self) -> "Lines":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def flow(self, count: int) -> None:
        """Write that many more lines; waits while the command takes none."""
        assert self._process.stdin is not None
        for start in range(self.count, self.count + count, LINES_AT_ONCE):
            lines = b"".join(
                b"k%d\t%09d%s\n" % (number % KEYS, number, b"x" * 90) for number in range(start, start + LINES_AT_ONCE)
            )
            self._process.stdin.write(lines)
            self._process.stdin.flush()
            time.sleep(PAUSE_S)  # so that they flow for as long as the cluster changes
        self.count += count

    def finish(self) -> None:
        """End the input; the command is content."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(DONE_WITHIN_S) == 0, self._output.read_text()
        assert self._output.read_text() == ""


def read_numbers(cluster: Cluster, topic: str, count: int) -> dict[int, list[int]]:
    """The numbers of the lines of each partition, in order of their offsets."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        found: dict[int, list[int]] = defaultdict(list)
        read = 0
        deadline = time.monotonic() + DONE_WITHIN_S
        while read < count:
            assert time.monotonic() < deadline, f"{read} of {count} lines are there"
            for message in consumer.consume(10_000, 1):
                assert message.error() is None
                found[message.partition()].append(int(message.value().split(b"\t")[-1][:9]))
                read += 1
        assert not consumer.consume(1, 1), "there are more lines than were written"
        return found
    finally:
        consumer.close()


def require_all_once(cluster: Cluster, topic: str, count: int) -> None:
    found = read_numbers(cluster, topic, count)
    assert all(numbers == sorted(numbers) for numbers in found.values())
    assert sorted(number for numbers in found.values() for number in numbers) == list(range(count))


@pytest.fixture
def observed(make_cluster: ClusterFactory, observe: Observe, topic: str) -> tuple[Cluster, Observer]:
    """A cluster of three nodes with a topic."""
    cluster = make_cluster()
    observer = observe(cluster)
    observer.create(topic, PARTITIONS)
    return cluster, observer


@pytest.mark.timeout(300)
@pytest.mark.parametrize("arguments", [(), ("--compression-codec", "lz4", "--batch-size", "100000")])
def test_killed_leaders_lose_and_double_no_line(
    observed: tuple[Cluster, Observer], topic: str, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    cluster, observer = observed
    with Lines(cluster, topic, tmp_path / "told", *arguments) as lines:
        for partition in range(PARTITIONS):
            lines.flow(40_000)
            leader = observer.leader(topic, partition)
            cluster.nodes[leader].kill()
            lines.flow(60_000)
            observer.wait_for_leader_other_than(leader, topic, partition)
            cluster.nodes[leader].start()
            observer.wait_until_whole(topic)
        lines.finish()
    require_all_once(cluster, topic, lines.count)


@pytest.mark.timeout(300)
def test_moved_leaders_lose_and_double_no_line(observed: tuple[Cluster, Observer], topic: str, tmp_path: Path) -> None:
    cluster, observer = observed
    with Lines(cluster, topic, tmp_path / "told", "--property", "parse.key=true") as lines:
        for node in cluster.nodes.values():
            lines.flow(20_000)
            node.stop()
            lines.flow(20_000)
            node.start()
            observer.wait_until_whole(topic)
        lines.finish()
    require_all_once(cluster, topic, lines.count)
