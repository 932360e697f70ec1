"""Share coordinators on their partitions, asked as leaders and groups ask them: restarts, pruning, topics that end, damaged logs."""

import asyncio
import uuid

import pytest

from esp.broker.share_states.coordinators import coordinator_key, is_coordinator_key
from esp.broker.share_states.persister import GIVE_UP_US
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import SHARE_STATES_TOPIC, TopicId
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.partition import StateWrite
from esp.share.persister import PersistedRead, PersistedSummary
from tests.unit.broker.conversation import create_topic, delete_topic
from tests.unit.broker.simulated_node import simulated

PARTITIONS = 2
small = {
    "share_coordinator_state_topic_num_partitions": PARTITIONS,
    "share_coordinator_snapshot_update_records_per_snapshot": 3,
}


def accepted(start, end):
    return StateBatch(start, end, RecordState.ACKNOWLEDGED, 1)


def persister_of(node):
    """The way to the coordinators from a node."""
    return node.node.broker.running.persister


async def write(node, key, *batches, start_offset=0):
    change = StateWrite(1, start_offset, len(batches), batches)
    await node.process.run(persister_of(node).write(key, 5, 0, change))


async def initialized(node, client, name="t"):
    """The key of a share partition whose state has begun."""
    key = ShareStateKey("g", await create_topic(client, name), 0)
    await node.process.run(persister_of(node).initialize(key, 5, -1))
    await node.process.run(persister_of(node).read(key, 0))
    return key


async def initialized_and_unreadable(node):
    """A share partition whose coordinator leads anew over a log with a flipped bit; its key, and a function that flips the bit back."""
    key = await initialized(node, await node.client())
    number = partition_for(coordinator_key(key), PARTITIONS)
    path = f"/data/{SHARE_STATES_TOPIC}-{number}/{0:020d}.log"
    node.disk.corrupt(path, 81)

    async def lead_again():
        node.node.broker.running.share_states.on_leading(node.hosted(SHARE_STATES_TOPIC, number))

    await node.process.run(lead_again())
    return key, lambda: node.disk.corrupt(path, 81)


def log_of(node, key):
    return node.log(SHARE_STATES_TOPIC, partition_for(coordinator_key(key), PARTITIONS))


@simulated(**small)
async def test_topic_is_made_at_first_need_as_kafka_makes_it(node):
    client = await node.client()
    await initialized(node, client)
    topic = node.metadata.image.topics_by_name[SHARE_STATES_TOPIC]
    assert len(topic.partitions) == PARTITIONS
    assert dict(topic.configs) == {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "segment.bytes": "104857600",
        "retention.ms": "-1",
        "min.insync.replicas": "1",
    }


@simulated(**small)
async def test_state_outlives_the_node(node):
    client = await node.client()
    key = await initialized(node, client)
    await write(node, key, accepted(3, 5), start_offset=2)
    for _ in range(2):
        ask = persister_of(node)
        assert await node.process.run(ask.read(key, 0)) == PersistedRead(5, 2, (accepted(3, 5),))
        assert await node.process.run(ask.read_summary(key)) == PersistedSummary(5, 0, 2, 1)
        await node.restart()
    ask = persister_of(node)
    await node.process.run(ask.delete(key))
    with pytest.raises(ApiError) as refused:
        await node.process.run(ask.read(key, 0))
    assert refused.value.code is ErrorCode.invalid_request


@simulated(**small, share_coordinator_state_topic_prune_interval_ms=1_000)
async def test_log_is_pruned_and_the_state_is_what_it_was(node):
    client = await node.client()
    key = await initialized(node, client)
    for offset in range(9):
        await write(node, key, accepted(2 * offset, 2 * offset + 1))
    await asyncio.sleep(1.5)
    assert log_of(node, key).log_start_offset == 8
    expected = PersistedRead(5, 0, tuple(accepted(2 * offset, 2 * offset + 1) for offset in range(9)))
    assert await node.process.run(persister_of(node).read(key, 0)) == expected
    await node.restart()
    assert await node.process.run(persister_of(node).read(key, 0)) == expected


@simulated(**small)
async def test_state_ends_with_its_topic(node):
    client = await node.client()
    key = await initialized(node, client)
    await delete_topic(client, "t")
    await asyncio.sleep(1)
    assert log_of(node, key).log_end_offset == 2
    with pytest.raises(ApiError) as refused:
        await node.process.run(persister_of(node).read(key, 0))
    assert refused.value.code is ErrorCode.invalid_request


@simulated(**small)
async def test_log_that_cannot_be_read_is_not_served_until_it_can(node):
    key, mend = await initialized_and_unreadable(node)
    asked = asyncio.ensure_future(node.process.run(persister_of(node).read(key, 0)))
    await asyncio.sleep(8)
    assert not asked.done()
    mend()
    assert await asked == PersistedRead(5, -1, ())


@simulated(**small)
async def test_log_that_cannot_be_read_for_long_does_not_end_the_node(node):
    """It is read again every few seconds: each time from where the last one began, not from within it."""
    key, mend = await initialized_and_unreadable(node)
    await asyncio.sleep(3_000)
    assert node.node.broker.running.share_states.unreadable_count == 1
    mend()
    assert (await node.process.run(persister_of(node).read(key, 0))).state_epoch == 5


@simulated(**small)
async def test_updates_without_a_beginning_are_told_to_the_operator(node, caplog):
    client = await node.client()
    key = await initialized(node, client)
    await write(node, key, accepted(0, 1))
    log = log_of(node, key)
    log.raise_log_start(1)
    number = partition_for(coordinator_key(key), PARTITIONS)
    coordinators = node.node.broker.running.share_states

    async def lead_again():
        coordinators.on_leading(node.hosted(SHARE_STATES_TOPIC, number))

    await node.process.run(lead_again())
    with pytest.raises(ApiError):
        await node.process.run(persister_of(node).read(key, 0))
    assert "changes of 1 share partitions without their beginning" in caplog.text


@simulated(**small)
async def test_end_of_the_leadership_is_not_the_end_of_a_question(node):
    client = await node.client()
    key = await initialized(node, client)
    number = partition_for(coordinator_key(key), PARTITIONS)
    coordinators = node.node.broker.running.share_states
    coordinators.coordinator_of(key).end()
    asked = asyncio.ensure_future(node.process.run(persister_of(node).read(key, 0)))
    await asyncio.sleep(1)
    assert not asked.done()

    async def lead_again():
        coordinators.on_leading(node.hosted(SHARE_STATES_TOPIC, number))

    await node.process.run(lead_again())
    assert await asked == PersistedRead(5, -1, ())


@simulated(**small)
async def test_question_without_an_answer_is_given_up(node):
    client = await node.client()
    key = await initialized(node, client)
    node.node.broker.running.share_states.coordinator_of(key).end()
    began = node.loop.time()
    with pytest.raises(ApiError) as refused:
        await node.process.run(persister_of(node).read(key, 0))
    assert refused.value.code is ErrorCode.not_coordinator
    assert GIVE_UP_US / 1e6 - 2 < node.loop.time() - began <= GIVE_UP_US / 1e6


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("g:6UnuUoZiS92k7yCspX7KfA:0", True),
        ("a:b:6UnuUoZiS92k7yCspX7KfA:0", True),
        ("g:6UnuUoZiS92k7yCspX7KfA:-1", True),
        ("g:AAAAAAAAAAAAAAAAAAAAAA:0", True),
        (":6UnuUoZiS92k7yCspX7KfA:0", False),
        ("g:e949ee52-8662-4bdd-a4ef-20aca57eca7c:0", False),
        ("g:x:0", False),
        ("g:6UnuUoZiS92k7yCspX7KfA:x", False),
        ("g:6UnuUoZiS92k7yCspX7KfA:", False),
        ("g", False),
        ("", False),
    ],
)
def test_keys_of_coordinators_are_those_that_kafka_takes(text, is_one):
    assert is_coordinator_key(text) is is_one


@pytest.mark.parametrize(("group_id", "partition"), [("g", 18), ("h", 11)])
def test_partition_of_a_key_is_that_in_which_kafka_kept_it(group_id, partition):
    key = ShareStateKey(group_id, TopicId(uuid.UUID("e949ee52-8662-4bdd-a4ef-20aca57eca7c")), 0)
    assert coordinator_key(key) == f"{group_id}:6UnuUoZiS92k7yCspX7KfA:0"
    assert partition_for(coordinator_key(key), 50) == partition
