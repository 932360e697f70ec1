"""kafka-python's consumer as a member of a group, against a running node."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.admin import KafkaAdminClient, MemberToRemove
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.errors import CommitFailedError, FencedInstanceIdError, NoOffsetForPartitionError

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic
from tests.integration.group_members import QUICK_GROUPS
from tests.integration.kafka_python import subscribe

WITHIN_S = 60

MakeConsumer = Callable[..., KafkaConsumer]
"""``make_consumer(*topics, **settings)``: a member of the group named after the test."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
def make_consumer(node: NodeProcess, topic: str) -> Iterator[MakeConsumer]:
    """Make members, which leave after the test."""
    made: list[KafkaConsumer] = []

    def make(*topics: str, **settings: object) -> KafkaConsumer:
        base = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False, "retry_backoff_ms": 50}
        consumer = KafkaConsumer(bootstrap_servers=node.bootstrap, **{**base, **settings})
        made.append(consumer)
        if topics:
            subscribe(consumer, *topics)
        return consumer

    yield make
    for consumer in made:
        consumer.close()


class Listener(ConsumerRebalanceListener):
    """Notes what is assigned and revoked, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, set[int]]] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.events.append(("assigned", {each.partition for each in assigned}))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.events.append(("revoked", {each.partition for each in revoked}))


def fill(node: NodeProcess, topic: str, count: int = 10, partition: int = 0) -> None:
    """Write ``count`` records to a partition."""
    with closing(KafkaProducer(bootstrap_servers=node.bootstrap)) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition, timestamp_ms=1_000 + number)
        producer.flush(30)


def poll_until(claim: Callable[[], bool], *consumers: KafkaConsumer, poll_ms: int = 1_000) -> list:
    """Poll all consumers, at once, until the claim is true; return the records that came.

    A join that does not end within the poll in which it began may lose its assignment, or is begun again. So polls are long, and none of
    them waits for a member that is polled only after it.
    """
    got: list = []
    deadline = time.monotonic() + WITHIN_S
    with ThreadPoolExecutor(len(consumers)) as pool:
        while not claim():
            assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
            for polled in pool.map(lambda consumer: consumer.poll(timeout_ms=poll_ms), consumers):
                for records in polled.values():
                    got += records
    return got


def sizes(*consumers: KafkaConsumer) -> list[int]:
    """How many partitions each has."""
    return [len(consumer.assignment()) for consumer in consumers]


def read(consumer: KafkaConsumer, count: int) -> list[int]:
    """Read at least ``count`` records and return their offsets."""
    got: list = []
    deadline = time.monotonic() + WITHIN_S
    while len(got) < count:
        assert time.monotonic() < deadline
        for records in consumer.poll(timeout_ms=100).values():
            got += [record.offset for record in records]
    return got


@pytest.mark.timeout(120)
def test_member_commits_seeks_pauses_and_the_next_one_goes_on(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    fill(node, topic)
    place = TopicPartition(topic, 0)
    consumer = make_consumer(topic)
    assert read(consumer, 10) == list(range(10))
    assert consumer.subscription() == {topic}
    assert consumer.assignment() == {place}
    assert topic in consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0}
    assert consumer.group_metadata().generation_id >= 1
    assert (consumer.position(place), consumer.highwater(place), consumer.committed(place)) == (10, 10, None)

    consumer.commit({place: OffsetAndMetadata(4, "four", -1)})
    assert consumer.committed(place) == 4
    assert consumer.committed(place, metadata=True).metadata == "four"
    done: list[tuple] = []
    consumer.commit_async({place: OffsetAndMetadata(6, "", -1)}, lambda *outcome: done.append(outcome))
    poll_until(lambda: bool(done), consumer)
    assert not isinstance(done[0][1], Exception)
    assert consumer.committed(place) == 6

    consumer.seek(place, 8)
    assert read(consumer, 2) == [8, 9]
    consumer.seek_to_beginning(place)
    assert consumer.position(place) == 0
    consumer.pause(place)
    assert consumer.paused() == {place}
    assert consumer.poll(timeout_ms=200) == {}
    consumer.resume(place)
    assert read(consumer, 10) == list(range(10))
    consumer.seek_to_end(place)
    assert consumer.position(place) == 10
    assert consumer.offsets_for_times({place: 1_003})[place].offset == 3
    consumer.commit({place: OffsetAndMetadata(7, "", -1)})
    consumer.unsubscribe()
    assert consumer.assignment() == set()

    assert read(make_consumer(topic), 3) == [7, 8, 9]
    lost = make_consumer(topic, group_id=f"{topic}-other", auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        read(lost, 1)


@pytest.mark.timeout(120)
def test_member_that_leaves_commits_by_itself(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    fill(node, topic)
    first = make_consumer(topic, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    read(first, 10)
    first.close()
    second = make_consumer(topic)
    assert poll_until(lambda: sizes(second) == [1], second) == []
    assert second.committed(TopicPartition(topic, 0)) == 10


@pytest.mark.timeout(120)
def test_topics_that_match_a_pattern_are_read_when_they_come(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer, topic: str
) -> None:
    fill(node, make_topic(f"{topic}.a"), 1)
    consumer = make_consumer(metadata_max_age_ms=500)
    consumer.subscribe(pattern=rf"^{topic}\..*")
    # A poll ends with a record, which comes after the join: see subscribe().
    poll_until(lambda: sizes(consumer) == [1], consumer, poll_ms=20_000)
    fill(node, make_topic(f"{topic}.b", partitions=2), 1)
    poll_until(lambda: sizes(consumer) == [3], consumer, poll_ms=20_000)
    assert consumer.subscription() == {f"{topic}.a", f"{topic}.b"}


@pytest.mark.timeout(120)
def test_listeners_see_each_rebalance(make_topic: MakeTopic, make_consumer: MakeConsumer) -> None:
    topic = make_topic(partitions=4)
    first, second = make_consumer(heartbeat_interval_ms=200), make_consumer(heartbeat_interval_ms=200)
    listener = Listener()
    subscribe(first, topic, listener=listener)
    poll_until(lambda: sizes(first) == [4], first)
    subscribe(second, topic)
    poll_until(lambda: sizes(first, second) == [2, 2], first, second)
    second.close()
    poll_until(lambda: sizes(first) == [4] and listener.events[-1] == ("assigned", {0, 1, 2, 3}), first)
    events = [(what, len(partitions)) for what, partitions in listener.events if partitions]
    assert events == [("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2), ("assigned", 4)]


@pytest.mark.timeout(120)
def test_cooperative_members_give_up_only_what_they_must(make_topic: MakeTopic, make_consumer: MakeConsumer) -> None:
    topic = make_topic(partitions=4)
    settings = {"partition_assignment_strategy": [CooperativeStickyAssignor], "heartbeat_interval_ms": 200}
    first, second = make_consumer(**settings), make_consumer(**settings)
    listener = Listener()
    subscribe(first, topic, listener=listener)
    poll_until(lambda: sizes(first) == [4], first)
    subscribe(second, topic)
    poll_until(lambda: sizes(first, second) == [2, 2], first, second)
    assert sum(len(partitions) for what, partitions in listener.events if what == "revoked") == 2


@pytest.mark.timeout(120)
def test_static_member_keeps_its_place_and_fences_its_double(
    make_topic: MakeTopic, make_consumer: MakeConsumer, admin: KafkaAdminClient
) -> None:
    topic = make_topic(partitions=2)
    settings = {"group_instance_id": "i", "session_timeout_ms": 30_000, "heartbeat_interval_ms": 200}
    first = make_consumer(topic, **settings)
    poll_until(lambda: sizes(first) == [2], first)
    generation = first.group_metadata().generation_id
    first.close()
    described = admin.describe_groups([topic])[topic]
    assert [member["group_instance_id"] for member in described["members"]] == ["i"]
    second = make_consumer(topic, **settings)
    poll_until(lambda: sizes(second) == [2], second)
    assert second.group_metadata().generation_id == generation
    third = make_consumer(topic, **settings)
    poll_until(lambda: sizes(third) == [2], third)
    with pytest.raises(FencedInstanceIdError):
        second.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    removed = admin.remove_group_members(topic, [MemberToRemove(group_instance_id="i")])
    assert [error.errno for error in removed.values()] == [0]
    assert admin.describe_groups([topic])[topic]["group_state"] == "Empty"


@pytest.mark.timeout(120)
def test_member_that_polls_too_late_is_put_out_and_may_come_back(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic(partitions=2)
    fill(node, topic)
    settings = {"session_timeout_ms": 1_000, "heartbeat_interval_ms": 200}
    slow = make_consumer(topic, max_poll_interval_ms=1_000, **settings)
    poll_until(lambda: sizes(slow) == [2], slow)
    other = make_consumer(topic, **settings)
    poll_until(lambda: sizes(other) == [2], other)  # nobody polls `slow`
    with pytest.raises(CommitFailedError):
        slow.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
    poll_until(lambda: sizes(slow, other) == [1, 1], slow, other)
