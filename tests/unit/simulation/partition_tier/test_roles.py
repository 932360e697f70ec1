"""The product's roles of a replica and the partition tier's are the same: given the same metadata, each takes the same role, as firm."""

from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.roles import ReplicaRoles
from esp.broker.tasks import Tasks
from esp.model.ids import NO_NODE, NodeId, TopicPartition
from esp.records.batch_header import read_header
from esp.replication.partition_follower import PartitionFollower
from esp.replication.partition_leader import PartitionLeader
from esp.settings.broker import BrokerSettings
from esp.settings.topic import TopicSettings
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.partition_tier.controller import Image
from esp.simulation.partition_tier.memory_log import MemoryLog
from esp.simulation.partition_tier.node import PartitionNode
from tests.unit.broker.scenarios import played
from tests.unit.replication.logs import ME, B, C, stamped, state

LAG_MS = 30_000


class Product:
    """The roles of a node that is not connected: it takes roles, and asks nobody."""

    def __init__(self, loop):
        process = loop.new_process("node")
        network = SimulatedNetwork(loop, Random(3))
        env = simulated_env(loop, Random(1), process, simulated_disk(loop, Random(2)), network)
        settings = BrokerSettings(replica_lag_time_max_ms=LAG_MS)
        self.roles = ReplicaRoles(env, ME, settings, Tasks(env.host), self)
        self.hosted = None

    def hold(self, log):
        topic_id = state().topic_id
        self.hosted = HostedPartition(TopicPartition("t", 0), topic_id, log, lambda _: None, lambda _: None)

    async def flush(self, hosted):
        hosted.log.flush()

    def began_to_lead(self, hosted):
        assert hosted.leader is not None

    @property
    def role(self):
        return self.hosted.leader or self.hosted.follower


class World:
    """What a node of the tier needs around it; nothing that it asks for comes back."""

    now_us = 0
    lag_time_max_us = LAG_MS * 1000
    random = SimpleNamespace(random=lambda: 1.0)

    def after(self, *_):
        """Nothing comes later."""

    ask_controller = send = after


def some_states(random):
    """States as a node may see them: with gaps, leaderless ones, and elections from outside of all that were known to be complete."""
    now = state(leader=B, epoch=1, isr=(ME, B, C), partition_epoch=1)
    while True:
        yield now
        epoch = now.leader_epoch
        leader = now.leader
        if random.random() < 0.7:
            epoch += random.choice((1, 1, 1, 2))
            leader = random.choice((ME, ME, B, B, C, NO_NODE))
        kept = tuple(node for node in (ME, B, C) if node == leader or random.random() < 0.6)
        isr = () if leader == NO_NODE else kept
        now = state(
            leader=leader,
            epoch=epoch,
            isr=isr,
            elr=tuple(node for node in (ME, B, C) if node not in isr and random.random() < 0.3),
            partition_epoch=now.partition_epoch + random.choice((1, 1, 1, 2)),
            recovering=leader != NO_NODE and random.random() < 0.2,
        )


def described(role, log):
    """What a role is, and what taking it has done to the log."""
    firm = role.high_watermark_is_firm if isinstance(role, PartitionFollower) else None
    epochs = log.leader_epochs.entries()
    return type(role), role.leader_epoch, firm, epochs, log.log_end_offset, log.recovery_point, log.high_watermark


@pytest.mark.parametrize("seed", range(60))
@played(lambda loop, scenario: scenario(Product(loop)))
async def test_the_same_states_give_the_same_roles(product, seed):
    random = Random(seed)
    settings = TopicSettings(flush_messages=random.choice((1, 10)))
    log, tier_log = MemoryLog(settings), MemoryLog(settings)
    product.hold(log)
    node = PartitionNode(ME, World(), tier_log)
    brokers = {NodeId(number): SimpleNamespace(is_active=False, epoch=7) for number in (1, 2, 3)}
    seen = set()
    for offset, partition in zip(range(40), some_states(random), strict=False):
        await product.roles.take_over(product.hosted, partition)
        image = Image(offset, partition, brokers, settings.min_insync_replicas)
        if offset:
            node.on_image(image)
        else:
            node.begin(image)
        if partition.leader == NO_NODE:
            continue
        assert described(product.role, log) == described(node.role, tier_log)
        seen.add((type(node.role), getattr(node.role, "high_watermark_is_firm", None)))
        if random.random() < 0.6:
            for each in (log, tier_log):
                batch = stamped(each.log_end_offset, partition.leader_epoch)
                each.append(batch, read_header(batch), 0)
                each.high_watermark = max(each.high_watermark, each.log_end_offset - 1)
        if random.random() < 0.3:
            log.flush()
            tier_log.flush()
    assert {(PartitionLeader, None), (PartitionFollower, False)} <= seen
