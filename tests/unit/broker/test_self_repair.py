"""A cluster of whole nodes, on virtual time, repairs itself when a machine is gone for good."""

import asyncio
import dataclasses
from random import Random

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.cluster import bootstrap_addresses
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.profile import Profile, TopicProfile
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.history import SentBatch

TOPIC = TopicProfile("t", 8, 3, 2, {"min.insync.replicas": "2", "retention.ms": "-1"})
DEAD_AFTER_S = 20
TIMEOUT_S = 30


class Cluster:
    """Four brokers or more, of which the first three are the quorum; the topic is on three each, and has records."""

    def __init__(self, mode, brokers=4, **settings):
        profile = dataclasses.replace(
            Profile.draw(1, node_count=brokers),
            layout=Layout(tuple(range(1, brokers + 1)), (1, 2, 3), (1, 2, 3)),
            latency_us=(50, 500),
            clock_rates=(1.0,) * brokers,
            snapshots_metadata=False,
        )
        self.world = World(profile)
        for node in self.world.nodes.values():
            node.settings = dataclasses.replace(
                node.settings,
                broker_rack=None,
                rebalance_mode=mode,
                rebalance_broker_dead_after_ms=DEAD_AFTER_S * 1000,
                rebalance_partitions_in_flight_max=3,
                **settings,
            )
        addresses = bootstrap_addresses(profile.layout)
        self.client = ClusterClient(self.world.client_network(), addresses, "client", Random(1))

    @property
    def image(self):
        """The image of the node that knows the newest metadata."""
        return max((probe.image(node) for node in self.world.living), key=lambda image: image.offset)

    @property
    def partitions(self):
        topics = self.image.topics_by_name
        return topics["t"].partitions if "t" in topics else ()

    @property
    def marks(self):
        """Which copies count against the budget, by the metadata."""
        return self.image.topics_by_name["t"].configs.get("rebalance.throttled.replicas")

    def added(self):
        """Who is getting a copy."""
        return [node for state in self.partitions for node in state.adding_replicas]

    def active(self):
        """The number of the active controller; None while there is none."""
        nodes = self.world.nodes.items()
        return next((n for n, node in nodes if node in self.world.living and _is_active(node)), None)

    def logs(self):
        """The end of each partition's log on each living node that has it."""
        ends = {}
        for node in self.world.living:
            for hosted in probe.hosted_partitions(node):
                if hosted.name.topic == "t":
                    ends.setdefault(hosted.name.partition, {})[node.node_id] = hosted.log.log_end_offset
        return ends

    async def start(self):
        await self.world.boot()
        await self.until(lambda: all(self._is_served_by(node) for node in self.world.living), within_s=30)
        connection = await self.client.any_broker()
        request = requests.create_topic(TOPIC, TIMEOUT_S)
        answer = await connection.call(ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, request, TIMEOUT_S)
        assert answer.topics[0].error_code is ErrorCode.none
        copies = TOPIC.partitions * TOPIC.replication_factor
        await self.until(lambda: sum(map(len, self.logs().values())) == copies, within_s=30)
        for number in range(TOPIC.partitions):
            await self._produce(number)

    def _is_served_by(self, node):
        """Whether the node knows that all serve."""
        return [broker.is_active for broker in probe.image(node).brokers.values()] == [True] * len(self.world.nodes)

    async def _produce(self, partition):
        leader, _ = await self.client.leader("t", partition)
        data = bytes(build_batch([NewRecord(timestamp=1, value=b"v" * 500) for _ in range(20)]))
        batch = SentBatch(
            "t", self.client.topic_ids["t"], partition, "p", 0, data, 20, read_header(data).crc, False, acks=-1
        )
        request = requests.produce(batch, TIMEOUT_S)
        await leader.call(ApiKey.PRODUCE, requests.PRODUCE_VERSION, request, TIMEOUT_S)

    async def until(self, condition, *, within_s):
        began = self.world.loop.time()
        while not condition():
            assert self.world.loop.time() - began < within_s, "it does not come about"
            await asyncio.sleep(0.1)
        return self.world.loop.time() - began


def _is_active(node):
    controller = node.broker.controller
    return controller is not None and controller.running.driver.is_active


def _run(mode, scenario, **settings):
    cluster = Cluster(mode, **settings)

    async def main():
        await cluster.start()
        await scenario(cluster)

    cluster.world.loop.run(main(), limit_s=600)


def _is_whole(cluster, gone):
    return all(
        len(state.replicas) == 3 and set(state.isr) == set(state.replicas) and gone not in state.replicas
        for state in cluster.partitions
    )


def test_all_partitions_come_back_to_full_replication_by_themselves():
    async def scenario(cluster):
        cluster.world.nodes[4].lose_power()
        took_s = await cluster.until(lambda: _is_whole(cluster, 4), within_s=DEAD_AFTER_S + 60)
        assert took_s >= DEAD_AFTER_S
        for ends in cluster.logs().values():
            assert ends == {1: 20, 2: 20, 3: 20}

    _run("apply", scenario)


def test_active_controller_that_dies_for_good_is_replaced_and_repaired():
    async def scenario(cluster):
        active = next(
            n for n, node in cluster.world.nodes.items() if n != 4 and node.broker.controller.running.driver.is_active
        )
        cluster.world.nodes[active].lose_power()
        await cluster.until(lambda: _is_whole(cluster, active), within_s=DEAD_AFTER_S + 90)

    _run("apply", scenario)


def test_nothing_moves_when_only_proposing():
    async def scenario(cluster):
        before = [state.replicas for state in cluster.partitions]
        cluster.world.nodes[4].lose_power()
        await asyncio.sleep(DEAD_AFTER_S + 60)
        assert [state.replicas for state in cluster.partitions] == before
        assert any(4 in replicas for replicas in before)
        drivers = (node.broker.controller.running.driver for node in cluster.world.living)
        proposals = [driver.proposed_repair for driver in drivers if driver.is_active]
        assert [proposal.command for proposal in proposals] == ["esp rebalance plan drain 4"]

    _run("propose", scenario)


def test_broker_that_comes_back_keeps_what_it_had():
    async def scenario(cluster):
        before = [state.replicas for state in cluster.partitions]
        cluster.world.nodes[4].lose_power()
        await asyncio.sleep(DEAD_AFTER_S / 2)
        await cluster.world.start(cluster.world.nodes[4])
        await asyncio.sleep(DEAD_AFTER_S * 2)
        assert [state.replicas for state in cluster.partitions] == before
        assert all(set(state.isr) == set(state.replicas) for state in cluster.partitions)

    _run("apply", scenario)


PARTITION_BYTES = 10_000
"""The size of one replica of the topic, about."""

RATE = 1000
"""Bytes per second."""


def test_repair_takes_as_long_as_the_budget_says_and_leaves_no_mark():
    async def scenario(cluster):
        held = sum(4 in state.replicas for state in cluster.partitions)
        cluster.world.nodes[4].lose_power()
        await cluster.until(lambda: cluster.marks, within_s=DEAD_AFTER_S + 30)
        took_s = await cluster.until(lambda: _is_whole(cluster, 4), within_s=300)
        assert took_s > held * PARTITION_BYTES / 3 / RATE, "three brokers get copies"
        await cluster.until(lambda: cluster.marks is None, within_s=10)

    _run("apply", scenario, rebalance_bytes_per_second_max=RATE)


def test_controller_that_dies_in_the_middle_leaves_copies_in_the_budget_and_no_mark():
    async def scenario(cluster):
        cluster.world.nodes[4].lose_power()
        await cluster.until(lambda: cluster.marks, within_s=DEAD_AFTER_S + 30)
        active = cluster.active()
        cluster.world.nodes[active].lose_power()
        await asyncio.sleep(1)
        await cluster.until(cluster.active, within_s=60)
        marked = {tuple(map(int, pair.split(":"))) for pair in cluster.marks.split(",")}
        for state in cluster.partitions:
            assert all((state.partition, node) in marked for node in state.adding_replicas)
        await cluster.world.start(cluster.world.nodes[active])
        await cluster.until(lambda: _is_whole(cluster, 4), within_s=300)
        await cluster.until(lambda: cluster.marks is None, within_s=10)

    _run("apply", scenario, rebalance_bytes_per_second_max=RATE)


def test_copy_for_a_broker_that_is_gone_too_goes_to_another():
    async def scenario(cluster):
        cluster.world.nodes[4].lose_power()
        await cluster.until(cluster.added, within_s=DEAD_AFTER_S + 30)
        also_gone = cluster.added()[0]
        cluster.world.nodes[also_gone].lose_power()
        await cluster.until(lambda: _is_whole(cluster, 4) and _is_whole(cluster, also_gone), within_s=300)
        assert all(list(ends.values()) == [20] * 3 for ends in cluster.logs().values())
        await cluster.until(lambda: cluster.marks is None, within_s=10)

    _run("apply", scenario, brokers=5, rebalance_bytes_per_second_max=RATE)
