"""aiokafka's consumer as a member of a group, and its admin client's view of groups, against a running node."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError, NoOffsetForPartitionError

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic
from tests.integration.group_members import QUICK_GROUPS

WITHIN_S = 60

pytestmark = pytest.mark.timeout(120)

MakeConsumer = Callable[..., Awaitable[AIOKafkaConsumer]]
"""``await make_consumer(*topics, **settings)``: a started member of the group named after the test."""


@pytest.fixture(scope="module")
def node_settings() -> Mapping[str, str]:
    """Groups begin without delay."""
    return QUICK_GROUPS


@pytest.fixture
async def make_consumer(node: NodeProcess, topic: str) -> AsyncIterator[MakeConsumer]:
    """Make members, which leave after the test."""
    made: list[AIOKafkaConsumer] = []

    async def make(*topics: str, **settings: object) -> AIOKafkaConsumer:
        base = {"group_id": topic, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        quick = {"heartbeat_interval_ms": 200, "retry_backoff_ms": 50}
        consumer = AIOKafkaConsumer(*topics, bootstrap_servers=node.bootstrap, **{**base, **quick, **settings})
        made.append(consumer)
        await consumer.start()
        return consumer

    yield make
    for consumer in made:
        await consumer.stop()


class Listener(ConsumerRebalanceListener):
    """Notes what is assigned and revoked, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int]] = []

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.events.append(("assigned", len(assigned)))

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.events.append(("revoked", len(revoked)))


async def fill(node: NodeProcess, topic: str, count: int = 10) -> None:
    """Write ``count`` records to partition 0, one millisecond apart."""
    async with AIOKafkaProducer(bootstrap_servers=node.bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=0, timestamp_ms=1_000 + number)
        await producer.flush()


async def read(consumer: AIOKafkaConsumer, count: int) -> list[int]:
    """Read at least ``count`` records and return their offsets."""
    got: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while len(got) < count:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                got += [record.offset for record in records]
    return got


async def until(claim: Callable[[], bool], *consumers: AIOKafkaConsumer) -> None:
    """Wait until the claim is true; the consumers poll meanwhile."""
    deadline = time.monotonic() + WITHIN_S
    while not claim():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in consumers]
        for consumer in consumers:
            await consumer.getmany(timeout_ms=20)


def sizes(*consumers: AIOKafkaConsumer) -> list[int]:
    """How many partitions each has."""
    return [len(consumer.assignment()) for consumer in consumers]


async def test_member_commits_seeks_pauses_and_the_next_one_goes_on(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    await fill(node, topic)
    place = TopicPartition(topic, 0)
    consumer = await make_consumer(topic)
    record = await asyncio.wait_for(consumer.getone(), WITHIN_S)
    assert (record.offset, record.value) == (0, b"0")
    await read(consumer, 9)
    assert (consumer.subscription(), consumer.assignment()) == ({topic}, {place})
    assert topic in await consumer.topics()
    assert consumer.partitions_for_topic(topic) == {0}
    assert (await consumer.position(place), consumer.highwater(place)) == (10, 10)
    assert await consumer.committed(place) is None

    await consumer.commit({place: (4, "four")})
    assert await consumer.committed(place) == 4
    await consumer.commit()
    assert await consumer.committed(place) == 10
    consumer.seek(place, 8)
    assert await read(consumer, 2) == [8, 9]
    await consumer.seek_to_beginning(place)
    assert await consumer.position(place) == 0
    consumer.pause(place)
    assert consumer.paused() == {place}
    assert await consumer.getmany(timeout_ms=200) == {}
    consumer.resume(place)
    assert await read(consumer, 10) == list(range(10))
    await consumer.seek_to_end(place)
    assert await consumer.position(place) == 10
    await consumer.commit({place: 7})
    assert await consumer.seek_to_committed(place) == {place: 7}
    assert (await consumer.offsets_for_times({place: 1_003}))[place].offset == 3
    assert await consumer.beginning_offsets([place]) == {place: 0}
    assert await consumer.end_offsets([place]) == {place: 10}
    consumer.unsubscribe()
    with pytest.raises(IllegalStateError):
        await consumer.commit({place: 1})
    await consumer.stop()

    assert await read(await make_consumer(topic), 3) == [7, 8, 9]
    lost = await make_consumer(topic, group_id=f"{topic}-other", auto_offset_reset="none")
    with pytest.raises(NoOffsetForPartitionError):
        await read(lost, 1)


async def test_member_that_leaves_commits_by_itself(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic()
    await fill(node, topic)
    first = await make_consumer(topic, enable_auto_commit=True, auto_commit_interval_ms=600_000)
    await read(first, 10)
    await first.stop()
    second = await make_consumer(topic)
    assert await second.committed(TopicPartition(topic, 0)) == 10


async def test_topics_that_match_a_pattern_are_read_when_they_come(
    make_topic: MakeTopic, make_consumer: MakeConsumer, topic: str
) -> None:
    make_topic(f"{topic}.a")
    consumer = await make_consumer(metadata_max_age_ms=500)
    consumer.subscribe(pattern=rf"^{topic}\..*")
    await until(lambda: sizes(consumer) == [1], consumer)
    make_topic(f"{topic}.b", partitions=2)
    await until(lambda: sizes(consumer) == [3], consumer)


@pytest.mark.parametrize("assignor", [RoundRobinPartitionAssignor, StickyPartitionAssignor])
async def test_listeners_see_each_rebalance(make_topic: MakeTopic, make_consumer: MakeConsumer, assignor: type) -> None:
    topic = make_topic(partitions=4)
    settings = {"partition_assignment_strategy": (assignor,)}
    first, second = await make_consumer(**settings), await make_consumer(**settings)
    listener = Listener()
    first.subscribe([topic], listener=listener)
    await until(lambda: sizes(first) == [4], first)
    second.subscribe([topic])
    await until(lambda: sizes(first, second) == [2, 2], first, second)
    await second.stop()
    await until(lambda: sizes(first) == [4] and listener.events[-1] == ("assigned", 4), first)
    events = [(what, count) for what, count in listener.events if count]
    assert events == [("assigned", 4), ("revoked", 4), ("assigned", 2), ("revoked", 2), ("assigned", 4)]


async def test_static_member_keeps_its_place(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic(partitions=4)
    settings = {"session_timeout_ms": 30_000}
    stays = await make_consumer(**settings, group_instance_id="stays")
    listener = Listener()
    stays.subscribe([topic], listener=listener)
    first = await make_consumer(topic, **settings, group_instance_id="i")
    await until(lambda: sizes(stays, first) == [2, 2] and listener.events[-1] == ("assigned", 2), stays, first)
    had, events = first.assignment(), len(listener.events)
    await first.stop()
    second = await make_consumer(topic, **settings, group_instance_id="i")
    await until(lambda: second.assignment() == had, stays, second)
    assert len(listener.events) == events


async def test_member_that_was_put_out_cannot_commit(
    node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer
) -> None:
    topic = make_topic(partitions=2)
    slow = await make_consumer(topic, max_poll_interval_ms=1_000, session_timeout_ms=1_000)
    await until(lambda: sizes(slow) == [2], slow)
    other = await make_consumer(topic, session_timeout_ms=1_000)
    await until(lambda: sizes(other) == [2], other)  # nobody polls `slow`
    with pytest.raises((CommitFailedError, IllegalStateError)):
        await slow.commit({TopicPartition(topic, 0): 1})
    await until(lambda: sizes(slow, other) == [1, 1], slow, other)


async def test_admin_sees_groups(node: NodeProcess, make_topic: MakeTopic, make_consumer: MakeConsumer) -> None:
    topic = make_topic()
    consumer = await make_consumer(topic, client_id="teller")
    await until(lambda: sizes(consumer) == [1], consumer)
    place = TopicPartition(topic, 0)
    await consumer.commit({place: OffsetAndMetadata(4, "four")})
    admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
    await admin.start()
    try:
        assert (topic, "consumer") in await admin.list_consumer_groups()
        assert await admin.find_coordinator(topic) == 1
        (answer,) = await admin.describe_consumer_groups([topic], include_authorized_operations=True)
        ((error, group, state, protocol_type, protocol, members, *_),) = answer.groups
        assert (error, group, state, protocol_type) == (0, topic, "Stable", "consumer")
        assert protocol == "roundrobin"
        assert [(member[1], member[2]) for member in members] == [("teller", "/127.0.0.1")]
        assert await admin.list_consumer_group_offsets(topic) == {place: OffsetAndMetadata(4, "four")}
        asked = await admin.list_consumer_group_offsets(topic, partitions=[place, TopicPartition(topic, 7)])
        assert asked[TopicPartition(topic, 7)].offset == -1
    finally:
        await admin.close()
