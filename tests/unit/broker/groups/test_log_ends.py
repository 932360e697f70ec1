"""The ends of partitions, as their leaders tell them."""

import pytest

from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.groups.log_ends import find_log_ends, find_log_starts
from esp.model.ids import NodeId, TopicPartition
from esp.model.peer_terms import PLAINTEXT
from tests.unit.broker.conversation import produce
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import records


def place(number, topic="t"):
    return TopicPartition(topic, number)


async def scene(cluster, partitions=4):
    """Node 1 may ask; each partition has as many records as its number says, and is led by another node than the one before."""
    cluster.controller.create("t", partitions=partitions)
    await cluster.applied()
    for number in range(1, partitions):
        client = await cluster[cluster.controller.state("t", number).leader].client()
        for _ in range(number):
            await produce(client, "t", records(b"v"), partition=number)
    services = cluster[1].services
    services.peers = BrokerPeers(cluster[1].env, lambda node: cluster[node].address, client_id="test", terms=PLAINTEXT)
    return services


@clustered()
async def test_each_leader_is_asked_for_the_end_that_consumers_see(cluster):
    services = await scene(cluster)
    assert {cluster.controller.state("t", number).leader for number in range(4)} == {1, 2, 3}
    found = await find_log_ends(services, [place(number) for number in (0, 1, 2, 3, 2, 9)] + [place(0, "u")])
    assert found == {place(number): number for number in range(4)}
    assert await find_log_ends(services, ()) == {}


@pytest.mark.parametrize("how", ["gone", "fenced", "no leader", "cut off"])
@clustered()
async def test_what_no_leader_tells_is_left_out(cluster, how):
    services = await scene(cluster)
    if how == "cut off":
        services.peers.find(NodeId(2)).close()
    elif how == "no leader":
        cluster.controller.change("t", 1, leader=NodeId(-1))
        await cluster.applied()
    else:
        cluster[2].kill()
        if how == "fenced":
            cluster.controller.fence(2)
            await cluster[1].applied()
    found = await find_log_ends(services, [place(number) for number in range(4)])
    assert found == {place(number): number for number in (0, 2, 3)}


@clustered()
async def test_a_leader_that_does_not_know_its_high_watermark_tells_no_end(cluster):
    services = await scene(cluster)
    for node in (2, 3):
        cluster[node].kill()
    await produce(await cluster[1].client(), "t", records(b"v"), partition=3, acks=1)
    assert await find_log_ends(services, [place(3)]) == {place(3): 3}
    cluster.controller.change("t", 3, leader=NodeId(1))
    await cluster[1].applied()
    assert await find_log_ends(services, [place(3)]) == {}


@clustered()
async def test_each_leader_is_asked_for_the_start_also_before_it_knows_the_end(cluster):
    services = await scene(cluster)
    for number, leader in ((3, cluster.controller.state("t", 3).leader), (2, cluster.controller.state("t", 2).leader)):
        cluster[leader].replicas.find("t", number).log.raise_log_start(number - 1)
    assert await find_log_starts(services, [place(number) for number in (0, 1, 2, 3, 9)]) == {
        place(0): 0,
        place(1): 0,
        place(2): 1,
        place(3): 2,
    }
