"""Three whole nodes ask one another for states of share partitions, also while a coordinator is killed: SHARE-20, SHARE-21, SHARE-30."""

import asyncio
from dataclasses import replace
from random import Random

import pytest

from esp.broker.limits import NodeLimits
from esp.broker.share_states.coordinators import coordinator_key
from esp.controller.bootstrap import FirstMetadata
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import SHARE_VERSION
from esp.model.ids import SHARE_STATES_TOPIC
from esp.ports.network import Address
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.partition import StateWrite
from esp.share.persister import PersistedRead, PersistedSummary
from esp.simulation.machine.loop import ProcessEndedError
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.node import STOPPED, SimulatedNode
from esp.simulation.nodes_tier.timing_profile import DEFAULT_TIMING
from esp.simulation.trace import Trace
from tests.unit.broker.conversation import create_topics
from tests.unit.broker.scenarios import played
from tests.unit.broker.simulated_node import Client

NODES = (1, 2, 3)
STATE_EPOCH = 5


def accepted(offset):
    return StateBatch(2 * offset, 2 * offset + 1, RecordState.ACKNOWLEDGED, 1)


class ThreeNodes:
    """A cluster that has share groups."""

    def __init__(self, loop, seed=0, **options):
        rng = self.rng = Random(seed)
        self.network = SimulatedNetwork(loop, Random(rng.random()))
        self.layout = Layout.combined(len(NODES))
        self.nodes = {
            number: SimulatedNode(
                loop,
                Random(rng.random()),
                self.network,
                replace(
                    cluster.node_settings(number, self.layout),
                    share_coordinator_state_topic_num_partitions=6,
                    share_coordinator_snapshot_update_records_per_snapshot=3,
                ),
                host=cluster.node_host(number),
                clock_rate=1.0,
                trace=Trace(loop.time, None),
                maybe=lambda _node, _point: None,
                timing=DEFAULT_TIMING,
                timing_rng=Random(rng.random()),
                **options,
            )
            for number in NODES
        }

    async def boot(self, partitions=6):
        """Start all nodes, make a topic, and begin the states of its partitions."""
        cluster_id, voters = cluster.draw_cluster_id(self.rng), cluster.draw_voters(self.rng, self.layout)
        first = FirstMetadata({SHARE_VERSION: 2})
        for node in self.nodes.values():
            node.format_disk(lambda env, settings: cluster.format_blocking(env, settings, voters, cluster_id, first))
        assert all(await asyncio.gather(*(node.start() for node in self.nodes.values())))
        client = Client()
        address = Address(cluster.node_host(1), cluster.CLIENT_PORT)
        client.connection = await self.network.connect(address, client.on_open, 1_000_000)
        (topic,) = await create_topics(client, [("t", partitions, {})], replication_factor=3)
        assert topic.error_code is ErrorCode.none
        self.keys = [ShareStateKey("g", topic.topic_id, number) for number in range(partitions)]
        await asyncio.gather(*(self.ask(1, lambda p, key=key: p.initialize(key, STATE_EPOCH, 0)) for key in self.keys))
        await asyncio.gather(*(self.read(1, key, 0) for key in self.keys))

    async def ask(self, number, question):
        """The answer to a question by a node."""
        node = self.nodes[number]
        return await node.process.run(question(node.broker.broker.running.persister))

    async def write(self, number, key, *offsets, leader_epoch=0):
        batches = tuple(map(accepted, offsets))
        change = StateWrite(1, 0, len(NODES), batches)
        await self.ask(number, lambda p: p.write(key, STATE_EPOCH, leader_epoch, change))

    async def read(self, number, key, leader_epoch=-1):
        return await self.ask(number, lambda p: p.read(key, leader_epoch))

    def coordinator_of(self, key):
        """The node that coordinates a share partition, as another one knows."""
        (metadata, *_) = (
            node.broker.broker.running._cache for node in self.nodes.values() if node.is_serving and node.is_alive
        )
        topic = metadata.image.topics_by_name[SHARE_STATES_TOPIC]
        return topic.partitions[partition_for(coordinator_key(key), len(topic.partitions))].leader


def with_three_nodes(seed=0, **options):
    async def play(loop, scenario):
        nodes = ThreeNodes(loop, seed, **options)
        await nodes.boot()
        await scenario(nodes)

    return played(play)


@with_three_nodes()
async def test_each_node_reads_what_the_others_have_written(nodes):
    assert {nodes.coordinator_of(key) for key in nodes.keys} == set(NODES)
    for place, key in enumerate(nodes.keys):
        for number in NODES:
            await nodes.write(number, key, number)
        for number in NODES:
            read = await nodes.read(number, key, leader_epoch=place)
            assert read == PersistedRead(STATE_EPOCH, 0, tuple(map(accepted, NODES)))
            summary = await nodes.ask(number, lambda p, key=key: p.read_summary(key))
            assert summary == PersistedSummary(STATE_EPOCH, place, 0, 3)
    key = nodes.keys[0]
    for number in NODES:
        with pytest.raises(ApiError) as refused:
            await nodes.ask(number, lambda p: p.initialize(key, STATE_EPOCH - 1, 0))
        assert refused.value.code is ErrorCode.fenced_state_epoch
    await nodes.ask(2, lambda p: p.delete(key))
    for number in NODES:
        with pytest.raises(ApiError) as refused:
            await nodes.read(number, key)
        assert refused.value.code is ErrorCode.invalid_request


@with_three_nodes(limits=NodeLimits(share_patience_us=700_000))
async def test_node_asks_for_as_long_as_it_was_told(nodes):
    key = next(key for key in nodes.keys if nodes.coordinator_of(key) == 2)
    nodes.nodes[2].broker.broker.running.share_states.coordinator_of(key).end()
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(ApiError) as refused:
        await nodes.read(1, key)
    assert refused.value.code is ErrorCode.not_coordinator
    assert 0.3 <= loop.time() - began <= 0.7


async def write_on(nodes, number, key, answered, end_s):
    """Write one change after the other; note those that were answered."""
    loop = asyncio.get_running_loop()
    offset = number * 1000
    while loop.time() < end_s:
        try:
            await nodes.write(number, key, offset)
        except ProcessEndedError:
            return
        answered.setdefault(key, []).append(offset)
        offset += 1
        await asyncio.sleep(nodes.rng.uniform(0, 1))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("power", [False, True])
def test_answered_changes_are_there_after_a_coordinator_was_killed(seed, power):
    @with_three_nodes(seed)
    async def scenario(nodes):
        loop = asyncio.get_running_loop()
        answered, end_s = {}, loop.time() + 30
        writers = [
            asyncio.ensure_future(write_on(nodes, number, key, answered, end_s))
            for number in NODES
            for key in nodes.keys
        ]
        await asyncio.sleep(nodes.rng.uniform(2, 4))
        victim = nodes.nodes[nodes.coordinator_of(nodes.rng.choice(nodes.keys))]
        at_kill = {key: len(offsets) for key, offsets in answered.items()}
        if power:
            victim.lose_power()
        else:
            victim.kill()
        await asyncio.sleep(nodes.rng.uniform(1, 15))
        assert await victim.start()
        await asyncio.gather(*writers)
        assert set(answered) == set(nodes.keys)
        assert all(len(answered[key]) > at_kill[key] + 5 for key in nodes.keys), "all went on"
        for key in nodes.keys:
            for number in NODES:
                found = {batch.start_offset for batch in (await nodes.read(number, key)).batches}
                assert found >= {2 * offset for offset in answered[key]}

    scenario()


@pytest.mark.parametrize("seed", range(3))
def test_leader_of_an_older_epoch_writes_nothing_more_whatever_becomes_of_the_coordinator(seed):
    @with_three_nodes(seed)
    async def scenario(nodes):
        key = next(key for key in nodes.keys if nodes.coordinator_of(key) == 2)
        answered = {}
        old = asyncio.ensure_future(write_on(nodes, 1, key, answered, asyncio.get_running_loop().time() + 60))
        await asyncio.sleep(nodes.rng.uniform(1, 2))
        nodes.nodes[2].kill()
        await asyncio.sleep(nodes.rng.uniform(0, 12))
        read = await nodes.read(3, key, leader_epoch=1)
        with pytest.raises(ApiError) as fenced:
            await old
        assert fenced.value.code is ErrorCode.fenced_leader_epoch
        assert {2 * offset for offset in answered[key]} <= {batch.start_offset for batch in read.batches}
        assert await nodes.nodes[2].start()
        nodes.nodes[nodes.coordinator_of(key)].kill()
        assert (await nodes.read(2, key, leader_epoch=2)).batches == read.batches
        for number in (1, 2, 3):
            if nodes.nodes[number].is_serving:
                with pytest.raises(ApiError) as fenced:
                    await nodes.write(number, key, 9, leader_epoch=1)
                assert fenced.value.code is ErrorCode.fenced_leader_epoch

    scenario()


@with_three_nodes()
async def test_node_that_is_stopped_while_it_asks_comes_to_its_end(nodes):
    key = next(key for key in nodes.keys if nodes.coordinator_of(key) == 2)
    asked = [asyncio.ensure_future(nodes.read(1, key)) for _ in range(3)]
    nodes.nodes[2].process.pause()
    await asyncio.sleep(0.5)
    await nodes.nodes[1].stop()
    assert nodes.nodes[1].process.end_reason == STOPPED
    for each in asked:
        with pytest.raises((ProcessEndedError, asyncio.CancelledError)):
            await each
