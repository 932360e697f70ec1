"""confluent-kafka's consumer as a member of a group, against a running node."""

import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic
from tests.integration.group_members import QUICK_GROUPS

WITHIN_S = 60

pytestmark = pytest.mark.timeout(120)

MakeConsumer = Callable[..., Consumer]
"""``make_consumer(**settings)``: a consumer of the group named after the test."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
def make_consumer(node: NodeProcess, topic: str) -> Iterator[MakeConsumer]:
    """Make members, which leave after the test."""
    made: list[Consumer] = []

    def make(on_commit: Callable[..., None] = lambda *_: None, **settings: object) -> Consumer:
        config = {
            "bootstrap.servers": node.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 200,
            "log_level": 0,
            "on_commit": on_commit,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        made.append(Consumer(config))
        return made[-1]

    yield make
    for consumer in made:
        consumer.close()


class Rebalances:
    """Notes what is assigned, revoked and lost, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    def subscribe(self, consumer: Consumer, topic: str) -> None:
        """Have the consumer read the topic, and note its rebalances here."""
        consumer.subscribe(
            [topic],
            on_assign=lambda _, partitions: self.events.append(("assigned", len(partitions))),
            on_revoke=lambda _, partitions: self.events.append(("revoked", len(partitions))),
            on_lost=lambda _, partitions: self.events.append(("lost", len(partitions))),
        )


def fill(node: NodeProcess, topic: str, count: int = 10) -> None:
    """Write ``count`` records to partition 0, one millisecond apart."""
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, timestamp=1_000 + number)
    assert producer.flush(30) == 0


def until(claim: Callable[[], bool], *consumers: Consumer) -> None:
    """Poll all consumers in turn until the claim is true."""
    deadline = time.monotonic() + WITHIN_S
    while not claim():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            consumer.poll(0.02)


def sizes(*consumers: Consumer) -> list[int]:
    """How many partitions each has."""
    return [len(consumer.assignment()) for consumer in consumers]


def read(consumer: Consumer, count: int) -> list[int]:
    """Read ``count`` records and return their offsets; an error of the consumer raises."""
    got: list[int] = []
    deadline = time.monotonic() + WITHIN_S
    while len(got) < count:
        assert time.monotonic() < deadline
        for message in consumer.consume(count - len(got), 0.2):
            if message.error() is not None:
                raise KafkaException(message.error())
            got.append(message.offset())
    return got


def offsets(partitions: list[TopicPartition]) -> list[int]:
    """The offsets of what a call returned, none of which failed."""
    assert [partition.error for partition in partitions] == [None] * len(partitions)
    return [partition.offset for partition in partitions]


def test_member_commits_seeks_pauses_and_the_next_one_goes_on(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    fill(node, topic)
    place = TopicPartition(topic, 0)
    outcomes: list[tuple] = []
    consumer = make_consumer(on_commit=lambda *outcome: outcomes.append(outcome), enable_auto_offset_store=False)
    consumer.subscribe([topic])
    assert read(consumer, 10) == list(range(10))
    assert consumer.assignment() == [place]
    assert consumer.memberid()
    assert consumer.consumer_group_metadata() is not None
    assert topic in consumer.list_topics(timeout=10).topics
    assert len(consumer.cluster_id(10)) == 22
    assert consumer.get_watermark_offsets(place, 10) == (0, 10)
    assert offsets(consumer.position([place])) == [10]
    assert offsets(consumer.committed([place], 10)) == [OFFSET_INVALID]

    named = TopicPartition(topic, 0, 4, "four")
    assert offsets(consumer.commit(offsets=[named], asynchronous=False)) == [4]
    (told,) = consumer.committed([place], 10)
    assert (told.offset, told.metadata) == (4, "four")
    consumer.store_offsets(offsets=[TopicPartition(topic, 0, 5)])
    assert offsets(consumer.commit(asynchronous=False)) == [5]
    consumer.seek(TopicPartition(topic, 0, 8))
    message = None
    while message is None:
        message = consumer.poll(1)
    assert message.offset() == 8
    outcomes.clear()
    consumer.commit(message)
    until(lambda: bool(outcomes), consumer)
    error, committed = outcomes[0]
    assert (error, offsets(committed)) == (None, [9])

    consumer.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
    assert read(consumer, 10) == list(range(10))
    consumer.pause([place])
    consumer.seek(TopicPartition(topic, 0, 3))
    assert consumer.poll(0.3) is None
    consumer.resume([place])
    assert read(consumer, 7) == list(range(3, 10))
    wanted = [TopicPartition(topic, 0, 1_003), TopicPartition(topic, 0, 9_000)]
    assert [offsets(consumer.offsets_for_times([each], 10)) for each in wanted] == [[3], [OFFSET_END]]
    consumer.commit(offsets=[TopicPartition(topic, 0, 7)], asynchronous=False)
    consumer.unsubscribe()
    until(lambda: not consumer.assignment(), consumer)
    consumer.close()

    follower = make_consumer()
    follower.subscribe([topic])
    assert read(follower, 3) == [7, 8, 9]
    lost = make_consumer(group_id=f"{topic}-other", auto_offset_reset="error")
    lost.subscribe([topic])
    with pytest.raises(KafkaException) as raised:
        read(lost, 1)
    assert raised.value.args[0].code() == KafkaError._AUTO_OFFSET_RESET


def test_member_that_leaves_commits_by_itself(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    fill(node, topic)
    first = make_consumer(enable_auto_commit=True, auto_commit_interval_ms=600_000)
    first.subscribe([topic])
    read(first, 10)
    first.close()
    assert offsets(make_consumer().committed([TopicPartition(topic, 0)], 10)) == [10]


def test_topics_that_match_a_pattern_are_read_when_they_come(
    make_topic: MakeTopic, make_consumer: MakeConsumer, topic: str
) -> None:
    make_topic(f"{topic}.a")
    consumer = make_consumer(topic_metadata_refresh_interval_ms=500)
    consumer.subscribe([rf"^{topic}\..*"])
    until(lambda: sizes(consumer) == [1], consumer)
    make_topic(f"{topic}.b", partitions=2)
    until(lambda: sizes(consumer) == [3], consumer)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_callbacks_see_each_rebalance(make_topic: MakeTopic, make_consumer: MakeConsumer, strategy: str) -> None:
    topic = make_topic(partitions=4)
    settings = {"partition_assignment_strategy": strategy}
    first, second = make_consumer(**settings), make_consumer(**settings)
    seen = Rebalances()
    seen.subscribe(first, topic)
    until(lambda: sizes(first) == [4], first)
    second.subscribe([topic])
    until(lambda: sizes(first, second) == [2, 2], first, second)
    second.close()
    until(lambda: sizes(first) == [4], first)
    events = [(what, count) for what, count in seen.events if count]
    assert events == [("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2), ("assigned", 4)]


def test_cooperative_members_give_up_only_what_they_must(make_topic: MakeTopic, make_consumer: MakeConsumer) -> None:
    topic = make_topic(partitions=4)
    settings = {"partition_assignment_strategy": "cooperative-sticky"}
    first, second = make_consumer(**settings), make_consumer(**settings)
    seen = Rebalances()
    seen.subscribe(first, topic)
    until(lambda: sizes(first) == [4], first)
    second.subscribe([topic])
    until(lambda: sizes(first, second) == [2, 2], first, second)
    second.close()
    until(lambda: sizes(first) == [4], first)
    events = [(what, count) for what, count in seen.events if count]
    assert events == [("assigned", 4), ("revoked", 2), ("assigned", 2)]


def test_static_member_keeps_its_place_and_fences_its_double(
    make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic(partitions=4)
    settings = {"session_timeout_ms": 30_000}
    stays = make_consumer(**settings, group_instance_id="stays")
    seen = Rebalances()
    seen.subscribe(stays, topic)
    first = make_consumer(**settings, group_instance_id="i")
    first.subscribe([topic])
    until(lambda: sizes(stays, first) == [2, 2], stays, first)
    had, events = first.assignment(), len(seen.events)
    first.close()
    second = make_consumer(**settings, group_instance_id="i")
    second.subscribe([topic])
    until(lambda: second.assignment() == had, stays, second)
    double = make_consumer(**settings, group_instance_id="i")
    double.subscribe([topic])
    until(lambda: double.assignment() == had, stays, double)
    assert len(seen.events) == events
    with pytest.raises(KafkaException) as raised:
        read(second, 1)
    assert raised.value.args[0].code() in {KafkaError._FATAL, KafkaError.FENCED_INSTANCE_ID}


def test_member_that_polls_too_late_loses_its_partitions_and_may_come_back(
    make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic(partitions=2)
    slow = make_consumer(max_poll_interval_ms=1_000, session_timeout_ms=1_000)
    seen = Rebalances()
    seen.subscribe(slow, topic)
    until(lambda: sizes(slow) == [2], slow)
    other = make_consumer()
    other.subscribe([topic])
    until(lambda: sizes(other) == [2], other)  # nobody polls `slow`
    with pytest.raises(KafkaException) as raised:
        slow.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert raised.value.args[0].code() in {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError._ASSIGNMENT_LOST,
    }
    until(lambda: sizes(slow, other) == [1, 1], slow, other)
    assert seen.events[:2] in ([("assigned", 2), ("lost", 2)], [("assigned", 2), ("revoked", 2)])
