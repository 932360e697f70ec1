"""Three whole nodes: a share partition goes on at the next leader with what was persisted (SHARE-4, SHARE-13, SHARE-18)."""

import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.simulation.nodes_tier import cluster
from tests.unit.broker.conversation import produce
from tests.unit.broker.share_states.test_share_states_of_a_cluster import with_three_nodes
from tests.unit.broker.simulated_node import Client, RefusedError, records
from tests.unit.broker.wire_share_member import ACCEPT, RELEASE, WireMember


def leader_of(nodes, topic="t"):
    """The leader of the first partition, as some node that lives knows."""
    (metadata, *_) = (
        node.broker.broker.running._cache for node in nodes.nodes.values() if node.is_serving and node.is_alive
    )
    found = metadata.image.topics_by_name.get(topic)
    return -1 if found is None else found.partitions[0].leader


async def connected(nodes, number):
    client = Client()
    address = Address(cluster.node_host(number), cluster.CLIENT_PORT)
    client.connection = await nodes.network.connect(address, client.on_open, 1_000_000)
    return client


async def until_led_elsewhere(nodes, number):
    while leader_of(nodes) in (number, -1):  # noqa: ASYNC110 - the metadata of the others changes
        await asyncio.sleep(0.1)
    return leader_of(nodes)


async def taken_at(nodes, number, topic_id, count):
    """What another member gets of the partition at a node, which may not know yet that it leads."""
    got = []
    while sum(last - first + 1 for _partition, first, last, _count in got) < count:
        member = WireMember(await connected(nodes, number), topic_id, "next")
        answers = await member.fetch(0)
        if any(answer.error_code for answer in answers.values()):
            await asyncio.sleep(0.1)
            continue
        got += [
            (number, piece.first_offset, piece.last_offset, piece.delivery_count)
            for number, answer in answers.items()
            for piece in answer.acquired_records
        ]
    return got


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("way", ["killed", "stopped"])
def test_the_next_leader_delivers_what_was_not_accepted_and_nothing_else(seed, way):
    @with_three_nodes(seed)
    async def scenario(nodes):
        topic_id, leader = nodes.keys[0].topic_id, leader_of(nodes)
        client = await connected(nodes, leader)
        await produce(client, "t", records(*[b"value"] * 5))
        member = WireMember(client, topic_id)
        assert await member.take(0, wait_ms=10_000) == [(0, 0, 4, 1)]
        assert await member.say({0: [(0, 1, ACCEPT, RELEASE)]}) == {0: ErrorCode.none}
        assert await member.take(most=1) == [(0, 1, 1, 2)]
        waiting = member.fetch_later(wait_ms=100_000)
        await asyncio.sleep(nodes.rng.random())
        if way == "killed":
            nodes.nodes[leader].kill()
        else:
            stopping = asyncio.ensure_future(nodes.nodes[leader].stop())
            (topic,) = (await waiting).responses
            assert topic.partitions[0].error_code is ErrorCode.not_leader_or_follower
            await stopping
        following = await until_led_elsewhere(nodes, leader)
        got = await taken_at(nodes, following, topic_id, 4)
        assert got == [(0, 1, 1, 2), (0, 2, 4, 1)]
        if way == "killed":
            with pytest.raises(RefusedError):
                await waiting

    scenario()
