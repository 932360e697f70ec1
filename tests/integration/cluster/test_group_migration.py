"""A group moves between the protocols, member by member, and its coordinator is killed at each step: what one has committed is its own."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from esp.groups.partitioning import partition_for
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.committing_members import (
    CommittingAiokafka,
    CommittingConfluent,
    CommittingKafkaPython,
    CommittingMember,
    CommittingOfConsumers,
    Owner,
    committed_by,
    read_by,
)
from tests.integration.conftest import eventually
from tests.integration.group_members import Member, members_of_a_test
from tests.integration.java_member import JavaMember

OFFSETS_TOPIC = "__consumer_offsets"
GROUP = "moving"
PARTITIONS = 6
WITHIN_S = 90
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.assignment.interval.ms": "0",
}


class Load:
    """Writes records all the time, each acknowledged by all in-sync replicas."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True})
        self._topic = topic
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.count = 0
        self._thread.start()

    def end(self) -> None:
        """Write no more, and wait until everything is acknowledged."""
        self._done.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _write(self) -> None:
        while not self._done.is_set():
            self._producer.produce(self._topic, b"%d" % self.count, partition=self.count % PARTITIONS)
            self.count += 1
            self._producer.poll(0)
            time.sleep(0.01)


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """The test's members, all of which have left in the end."""
    yield from members_of_a_test()


def kill_coordinator(cluster: Cluster, observer: Observer) -> int:
    """Kill the node that coordinates the group; returns its number."""
    partitions = observer.partitions(OFFSETS_TOPIC)
    dead = partitions[partition_for(GROUP, len(partitions))].leader
    cluster.nodes[dead].kill()
    return dead


def settle(members: Iterable[Owner]) -> None:
    """Wait until the members share the partitions."""
    members = list(members)

    def share_all() -> bool:
        owned = sorted(number for member in members for number in member.assigned)
        return owned == list(range(PARTITIONS)) and all(member.assigned for member in members)

    eventually(share_all, WITHIN_S)


def await_commits(members: Iterable[Owner]) -> None:
    """Wait until each member has committed something more."""
    before = {member: len(committed_by(member)) for member in members}
    eventually(lambda: all(len(committed_by(member)) > count for member, count in before.items()), WITHIN_S)


class Mover:
    """A member of one family that leaves, and comes back speaking the other protocol; with all that it was.

    Args:
        start: starts the member, by its protocol.
    """

    def __init__(self, start: Callable[[str], Owner]) -> None:
        self._start = start
        self.member = start("classic")
        self.former = [self.member]

    def return_as(self, protocol: str) -> None:
        """Join again."""
        self.member = self._start(protocol)
        self.former.append(self.member)


@pytest.mark.kafka
@pytest.mark.timeout(400)
def test_group_of_four_families_moves_there_and_back_while_its_coordinators_are_killed(
    make_cluster: ClusterFactory,
    observe: Observe,
    topic: str,
    members: list[Member],
    kafka_tools: KafkaTools,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "kafka")  # what kafka-python logs of a failed connection keeps its socket open
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    observer.create(topic, partitions=PARTITIONS)
    java: list[JavaMember] = []

    def start_confluent(protocol: str) -> CommittingMember:
        family = CommittingOfConsumers if protocol == "consumer" else CommittingConfluent
        members.append(member := family(cluster.bootstrap, topic, GROUP).start())
        return member

    def start_java(protocol: str) -> JavaMember:
        java.append(JavaMember(kafka_tools, cluster.bootstrap, topic, GROUP, tmp_path, protocol=protocol).start())
        return java[-1]

    stays = [
        family(cluster.bootstrap, topic, GROUP, session_ms=30_000).start()
        for family in (CommittingKafkaPython, CommittingAiokafka)
    ]
    members += stays
    try:
        movers = [Mover(start_confluent), Mover(start_java)]

        def now() -> list[Owner]:
            return [*stays, *(mover.member for mover in movers)]

        settle(now())
        load = Load(cluster, topic)
        await_commits(now())
        for protocol in ("consumer", "classic"):
            for mover in movers:
                mover.member.leave()
                dead = kill_coordinator(cluster, observer)
                mover.return_as(protocol)
                cluster.nodes[dead].start()
                observer.wait_until_whole(OFFSETS_TOPIC)
                dead = kill_coordinator(cluster, observer)
                settle(now())
                await_commits(now())
                cluster.nodes[dead].start()
                observer.wait_until_whole(OFFSETS_TOPIC)
        load.end()
        await_all_committed(cluster, topic, load.count)
        for member in now():
            member.leave()
    finally:
        for one in java:
            one.kill()
    everyone = [*stays, *(member for mover in movers for member in mover.former)]
    times = Counter(record for member in everyone for record in set(committed_by(member)))
    assert not [record for record, count in times.items() if count > 1], "committed by two"
    assert len({record for member in everyone for record in read_by(member)}) == load.count, "not handled"


def await_all_committed(cluster: Cluster, topic: str, count: int) -> None:
    """Wait until the group has committed that many records, all that there are."""
    asker = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def committed() -> dict[int, int]:
        return {each.partition: max(0, each.offset) for each in asker.committed(partitions, 30)}

    try:
        eventually(lambda: sum(committed().values()) == count, WITHIN_S)
    except AssertionError:
        ends = {each.partition: asker.get_watermark_offsets(each, 30)[1] for each in partitions}
        raise AssertionError(f"{count} records were written, {committed()} of {ends} are committed") from None
    finally:
        asker.close()
