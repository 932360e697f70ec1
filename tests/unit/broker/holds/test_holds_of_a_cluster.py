"""Holds in a cluster of whole nodes: leaders ask coordinators of other nodes, and replicas that do not lead judge nothing."""

import asyncio
import dataclasses
from random import Random

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.offset_commit.v9 import request as commit

from esp.groups.partitioning import partition_for
from esp.model.errors import ErrorCode
from esp.model.retention_hold import DELETE_TOPICS
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
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import SentBatch

OFFSETS = "__consumer_offsets"
TIMEOUT_S = 30
CHECK_S = 1
HELD = {
    "min.insync.replicas": "2",
    "retention.bytes": "0",
    "segment.bytes": str(1024 * 1024),
    "retention.hold.groups": "g",
}


class Cluster:
    """Three nodes, and a topic of one partition that group ``g`` holds."""

    def __init__(self):
        profile = dataclasses.replace(
            Profile.draw(1, node_count=3),
            layout=Layout((1, 2, 3), (1, 2, 3), (1, 2, 3)),
            latency_us=(50, 500),
            clock_rates=(1.0,) * 3,
            snapshots_metadata=False,
        )
        self.world = World(profile)
        for node in self.world.nodes.values():
            node.settings = dataclasses.replace(
                node.settings,
                broker_rack=None,
                log_initial_task_delay_ms=1000,
                log_retention_check_interval_ms=CHECK_S * 1000,
                offsets_topic_num_partitions=4,
                offsets_topic_replication_factor=3,
            )
        self.client = ClusterClient(
            self.world.client_network(), bootstrap_addresses(profile.layout), "client", Random(1)
        )

    async def start(self):
        await self.world.boot()
        connection = await self.client.any_broker()
        request = requests.create_topic(TopicProfile("t", 1, 3, 2, HELD), TIMEOUT_S)
        answer = await connection.call(ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, request, TIMEOUT_S)
        assert answer.topics[0].error_code is ErrorCode.none
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))
        await connection.call(ApiKey.FIND_COORDINATOR, 6, find, TIMEOUT_S)
        await self.until(lambda: len(self.logs()) == 3)

    def logs(self):
        """The log of each living node that has it."""
        return {
            node.node_id: hosted.log
            for node in self.world.living
            for hosted in probe.hosted_partitions(node)
            if hosted.name.topic == "t"
        }

    def starts(self):
        return {node_id: log.log_start_offset for node_id, log in self.logs().items()}

    def leader(self, topic="t", partition=0):
        """The number of the node that leads, by the newest metadata."""
        image = max((probe.image(node) for node in self.world.living), key=lambda image: image.offset)
        return image.topics_by_name[topic].partitions[partition].leader

    def holds(self):
        return self.world.nodes[self.leader()].broker.broker.running.holds

    async def produce(self, count):
        for _ in range(count):
            leader, _ = await self.client.leader("t", 0)
            data = bytes(build_batch([NewRecord(timestamp=1, value=bytes(600_000))]))
            batch = SentBatch(
                "t", self.client.topic_ids["t"], 0, "p", 0, data, 1, read_header(data).crc, False, acks=-1
            )
            answer = await leader.call(
                ApiKey.PRODUCE, requests.PRODUCE_VERSION, requests.produce(batch, TIMEOUT_S), TIMEOUT_S
            )
            assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none

    async def commit(self, offset):
        request = commit.OffsetCommitRequest(
            group_id="g",
            member_id="",
            group_instance_id=None,
            topics=(
                commit.OffsetCommitRequestTopic(
                    name="t",
                    partitions=(
                        commit.OffsetCommitRequestPartition(
                            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
                        ),
                    ),
                ),
            ),
        )
        while True:
            try:
                await self.client.refresh(("t", OFFSETS))
                coordinator, _ = await self.client.leader(OFFSETS, partition_for("g", 4))
                answer = await coordinator.call(ApiKey.OFFSET_COMMIT, 9, request, 5)
            except NoAnswerError:
                continue
            error = answer.topics[0].partitions[0].error_code
            if error is ErrorCode.none:
                return
            assert error in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator), error
            await asyncio.sleep(0.1)

    async def until(self, condition, within_s=60):
        began = self.world.loop.time()
        while not condition():
            assert self.world.loop.time() - began < within_s, f"it does not come about: {self.starts()}"
            await asyncio.sleep(0.1)


def played(scenario):
    def test():
        cluster = Cluster()

        async def main():
            await cluster.start()
            await scenario(cluster)

        cluster.world.loop.run(main(), limit_s=600)

    test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
    return test


@played
async def test_all_replicas_keep_what_is_held_and_follow_their_leader_when_it_goes(cluster):
    await cluster.commit(0)
    await cluster.produce(4)
    await cluster.commit(2)
    await cluster.until(lambda: cluster.starts() == {1: 2, 2: 2, 3: 2})
    await asyncio.sleep(10)
    assert cluster.starts() == {1: 2, 2: 2, 3: 2}
    assert sum(cluster.holds().held_bytes.values()) > 2 * 600_000
    await cluster.commit(4)
    await cluster.until(lambda: cluster.starts() == {1: 4, 2: 4, 3: 4})


@played
async def test_a_new_leader_holds_what_the_old_one_held(cluster):
    await cluster.produce(4)
    await cluster.commit(2)
    await cluster.until(lambda: cluster.starts() == {1: 2, 2: 2, 3: 2})
    former = cluster.leader()
    cluster.world.nodes[former].lose_power()
    await cluster.until(lambda: cluster.leader() not in (former, -1))
    await asyncio.sleep(20)
    assert set(cluster.starts().values()) == {2}
    await cluster.commit(3)
    await cluster.until(lambda: set(cluster.starts().values()) == {3})


@played
async def test_a_coordinator_that_is_not_there_frees_nothing(cluster):
    """The leader's patience ends, and what it has not heard is held; the next coordinator knows what was committed."""
    await cluster.produce(4)
    await cluster.commit(1)
    await cluster.until(lambda: cluster.starts() == {1: 1, 2: 1, 3: 1})
    coordinator = cluster.leader(OFFSETS, partition_for("g", 4))
    cluster.world.nodes[coordinator].lose_power()
    await asyncio.sleep(30)
    assert set(cluster.starts().values()) == {1}
    await cluster.commit(4)
    await cluster.until(lambda: set(cluster.starts().values()) == {4})


@played
async def test_whichever_node_is_asked_to_delete_a_topic_says_what_groups_have_lost(cluster):
    await cluster.produce(4)
    await cluster.commit(1)
    await cluster.until(lambda: cluster.starts() == {1: 1, 2: 1, 3: 1})
    connection = await cluster.client.any_broker()
    request = requests.delete_topic("t", TIMEOUT_S)
    answer = await connection.call(ApiKey.DELETE_TOPICS, requests.DELETE_TOPICS_VERSION, request, TIMEOUT_S)
    assert answer.responses[0].error_code is ErrorCode.none
    lost = [node.broker.broker.running.holds.lost_offsets[DELETE_TOPICS] for node in cluster.world.living]
    assert sorted(lost) == [0, 0, 3]
