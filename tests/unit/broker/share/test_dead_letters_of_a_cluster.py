"""Three whole nodes: letters go to the leader of the queue's partition, wherever it is, and none is left out when nodes are killed."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topics, produce
from tests.unit.broker.share.test_dead_letters import QUEUE, REJECT, has_queue, letters_in
from tests.unit.broker.share.test_share_partitions_of_a_cluster import (
    connected,
    leader_of,
    taken_at,
    until_led_elsewhere,
)
from tests.unit.broker.share_states.test_share_states_of_a_cluster import with_three_nodes
from tests.unit.broker.simulated_node import records
from tests.unit.broker.wire_share_member import WireMember

COUNT = 6


async def begun(nodes, queue=QUEUE):
    """The leader of the records, and a member that has some of them."""
    leader = leader_of(nodes)
    client = await connected(nodes, leader)
    await create_queue(client, queue)
    await has_queue(client, queue)
    await produce(client, "t", records(*[b"value"] * COUNT))
    member = WireMember(client, nodes.keys[0].topic_id)
    assert await member.take(0, wait_ms=10_000) == [(0, 0, COUNT - 1, 1)]
    return leader, member


async def create_queue(client, name):
    configs = {"errors_deadletterqueue_group_enable": "true"}
    await create_topics(client, [(name, 1, configs)], replication_factor=3)


async def offsets_in(nodes, count, queue=QUEUE):
    """The offsets of the records that the letters are about, once there are so many of them."""
    while True:
        found = set()
        for number, node in nodes.nodes.items():
            if node.is_serving and node.is_alive:
                letters = await letters_in(await connected(nodes, number), topic=queue)
                found |= {int(dict(letter.headers)["__dlq.errors.offset"]) for letter in letters}
        if len(found) >= count:
            return found
        await asyncio.sleep(0.2)


@pytest.mark.parametrize("seed", range(3))
def test_letters_reach_a_queue_that_is_led_by_any_node(seed):
    @with_three_nodes(seed)
    async def scenario(nodes):
        _leader, member = await begun(nodes)
        assert await member.say({0: [(0, COUNT - 1, REJECT)]}) == {0: ErrorCode.none}
        assert await offsets_in(nodes, COUNT) == set(range(COUNT))

    scenario()


@pytest.mark.parametrize("seed", range(6))
def test_no_letter_is_left_out_when_the_leader_of_the_records_is_killed(seed):
    """At any moment: before the letters are written, while they are, or before the records are archived."""

    @with_three_nodes(seed)
    async def scenario(nodes):
        leader, member = await begun(nodes)
        assert await member.say({0: [(0, COUNT - 1, REJECT)]}) == {0: ErrorCode.none}
        await asyncio.sleep(nodes.rng.random() * 0.1)
        nodes.nodes[leader].kill()
        following = await until_led_elsewhere(nodes, leader)
        client = await connected(nodes, following)
        await produce(client, "t", records(b"last"))
        assert await taken_at(nodes, following, nodes.keys[0].topic_id, 1) == [(0, COUNT, COUNT, 1)]
        assert await offsets_in(nodes, COUNT) == set(range(COUNT))

    scenario()


@pytest.mark.parametrize("seed", range(3))
def test_letters_wait_for_the_next_leader_of_their_queue(seed):
    @with_three_nodes(seed)
    async def scenario(nodes):
        client = await connected(nodes, leader_of(nodes))
        names = iter(f"dlq.{number}" for number in range(100))
        queue_leader = queue = None
        while queue_leader in (None, -1, leader_of(nodes)):
            queue = next(names)
            await create_queue(client, queue)
            queue_leader = leader_of(nodes, queue)
        _leader, member = await begun(nodes, queue)
        # The share coordinator may be killed too: the next one refuses the first change of a state that has seen none (SHARE-48).
        assert await member.say({0: [(0, 0, REJECT)]}) == {0: ErrorCode.none}
        nodes.nodes[queue_leader].kill()
        assert await member.say({0: [(1, COUNT - 1, REJECT)]}) == {0: ErrorCode.none}
        assert await offsets_in(nodes, COUNT, queue) == set(range(COUNT))

    scenario()
