"""A group moves between the protocols, member by member, and its coordinator is killed at each step: what one has committed is its own."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from esp.groups.partitioning import partition_for
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.conftest import eventually
from tests.integration.group_members import (
    AiokafkaMember,
    ConfluentMember,
    ConsumerProtocolMember,
    Member,
    members_of_a_test,
)

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


class Committing(ConfluentMember):
    """librdkafka's, which commits what it has read, batch by batch, and remembers what was acknowledged."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.committed: list[tuple[int, int]] = []
        """Partition and offset of each record of which the commit was acknowledged."""
        self._batch: list[tuple[int, int]] = []

    def _run(self) -> None:
        consumer = Consumer(self._settings() | {"enable.auto.commit": False})
        consumer.subscribe([self.topic], on_revoke=self._give_back, on_lost=self._lose)
        while not self._leaving.is_set():
            for message in consumer.consume(20, 0.1):
                if message.error() is None:
                    self._batch.append((message.partition() or 0, message.offset() or 0))
            self.assigned = frozenset(each.partition for each in consumer.assignment())
            self._commit(consumer)
        consumer.close()
        self.assigned = frozenset()

    def _commit(self, consumer: Consumer) -> None:
        """Commit the batch; until that is acknowledged, nobody knows whether it is committed."""
        ends = {partition: offset + 1 for partition, offset in sorted(self._batch)}
        if not ends:
            return
        offsets = [TopicPartition(self.topic, partition, offset) for partition, offset in ends.items()]
        try:
            told = consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return
        taken = {each.partition for each in told or () if each.error is None}
        self.committed += [record for record in self._batch if record[0] in taken]
        self._batch = [record for record in self._batch if record[0] not in taken]

    def _give_back(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._commit(consumer)
        self._lose(consumer, partitions)

    def _lose(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        gone = {each.partition for each in partitions}
        self._batch = [record for record in self._batch if record[0] not in gone]


class CommittingOfConsumers(Committing, ConsumerProtocolMember):
    """The same, which speaks the consumer protocol."""


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


def settle(*members: Member) -> None:
    """Wait until the members share the partitions."""

    def share_all() -> bool:
        owned = sorted(number for member in members for number in member.assigned)
        return owned == list(range(PARTITIONS)) and all(member.assigned for member in members)

    eventually(share_all, WITHIN_S)


@pytest.mark.timeout(400)
def test_group_moves_there_and_back_while_its_coordinators_are_killed(
    make_cluster: ClusterFactory, observe: Observe, topic: str, members: list[Member]
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    observer = observe(cluster)
    observer.create(topic, partitions=PARTITIONS)
    stays = AiokafkaMember(cluster.bootstrap, topic, GROUP, session_ms=30_000).start()
    moving: list[Committing] = [Committing(cluster.bootstrap, topic, GROUP).start() for _ in range(2)]
    all_committing = list(moving)
    members += [stays, *moving]
    settle(stays, *moving)
    load = Load(cluster, topic)
    for family in (CommittingOfConsumers, Committing):
        for place in (0, 1):
            leaver = moving[place]
            leaver.leave()
            members.remove(leaver)
            dead = kill_coordinator(cluster, observer)
            moving[place] = family(cluster.bootstrap, topic, GROUP).start()
            members.append(moving[place])
            all_committing.append(moving[place])
            cluster.nodes[dead].start()
            observer.wait_until_whole(OFFSETS_TOPIC)
            dead = kill_coordinator(cluster, observer)
            settle(stays, *moving)
            cluster.nodes[dead].start()
            observer.wait_until_whole(OFFSETS_TOPIC)
    load.end()
    count = Counter(record for member in all_committing for record in set(member.committed))
    assert not [record for record, times in count.items() if times > 1], "committed by two"
    ends = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    asker = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": GROUP})

    def is_read() -> bool:
        """All records are committed: so each was handled."""
        return sum(max(0, offset) for offset in committed().values()) == load.count

    def committed() -> dict[int, int]:
        return {each.partition: each.offset for each in asker.committed(ends, 30)}

    try:
        eventually(is_read, WITHIN_S)
    except AssertionError:
        there = {each.partition: asker.get_watermark_offsets(each, 30)[1] for each in ends}
        holds = [(type(each).__name__, sorted(each.assigned)) for each in (stays, *moving)]
        told = f"{load.count} records were written, {committed()} of {there} are committed; members hold {holds}"
        raise AssertionError(told) from None
    asker.close()
