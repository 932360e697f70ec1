"""Random lives of a small cluster: brokers die, hear of metadata late, lead and follow.

What was acknowledged by all in-sync replicas stays.
"""

import asyncio
from random import Random

import pytest

from esp.model.ids import NodeId
from tests.unit.broker.conversation import of_one_partition, produce_later
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import RefusedError, records, values

PARTITIONS = 3


class Producer:
    """Sends numbered records to whoever leads, with acks=all, and notes what was acknowledged at which offset."""

    def __init__(self, cluster, partition):
        self.cluster = cluster
        self.partition = partition
        self.acknowledged = {}
        self.sent = 0
        self.stopped = False

    async def run(self, rng):
        client, at = None, None
        while not self.stopped:
            leader = self.cluster.controller.state("t", self.partition).leader
            if leader < 0 or not self.cluster[leader].process.alive:
                await asyncio.sleep(0.05)
                continue
            try:
                if client is None or client.closed or at != leader:
                    client, at = await self.cluster[leader].client(), leader
                value = b"%d-%d" % (self.partition, self.sent)
                self.sent += 1
                batch = records(value + b"." * rng.randrange(300))
                async with asyncio.timeout(2):
                    answer = of_one_partition(
                        await produce_later(client, "t", batch, partition=self.partition, timeout_ms=1500)
                    )
                if answer.error_code == 0:
                    self.acknowledged[answer.base_offset] = value
            except (RefusedError, OSError, TimeoutError):
                client = None
            await asyncio.sleep(rng.random() * 0.02)


@pytest.mark.parametrize("seed", range(3))
def test_acknowledged_records_stay_where_they_are_whoever_leads(seed):
    @clustered(seed=seed, limit_s=600, log_segment_bytes=4096, replica_lag_time_max_ms=3000)
    async def scenario(cluster):
        rng = Random(seed)
        controller = cluster.controller
        controller.create(partitions=PARTITIONS, min_insync_replicas=2)
        await cluster.applied()
        producers = [Producer(cluster, number) for number in range(PARTITIONS)]
        tasks = [asyncio.ensure_future(each.run(Random(seed * 100 + each.partition))) for each in producers]
        for _ in range(10):
            await asyncio.sleep(rng.random() * 1.0)
            for broker in cluster.brokers.values():
                broker.metadata_delay_s = rng.choice((0, 0, 0.01, 0.3))
            what = rng.randrange(5)
            alive = [node for node, broker in cluster.brokers.items() if broker.process.alive]
            if what <= 1:
                if len(alive) == 3:
                    dead = NodeId(rng.choice(alive))
                    cluster[dead].kill()
                    await asyncio.sleep(rng.random() * 0.1)
                    controller.fail_over(dead)
            elif what == 2:
                for broker in cluster.brokers.values():
                    if not broker.process.alive:
                        await broker.start()
            elif what == 3:
                number = rng.randrange(PARTITIONS)
                state = controller.state("t", number)
                able = [node for node in state.isr if cluster[node].process.alive and node != state.leader]
                if able:
                    controller.change("t", number, leader=rng.choice(able))
            else:
                cluster.network.reset_all()
        for broker in cluster.brokers.values():
            broker.metadata_delay_s = 0
            if not broker.process.alive:
                await broker.start()
        await cluster.applied()
        for number in range(PARTITIONS):
            state = controller.state("t", number)
            if state.leader < 0:
                controller.change("t", number, leader=state.isr[0])
        await asyncio.sleep(1)
        for each in producers:
            each.stopped = True
        for task in tasks:
            await task
        for number in range(PARTITIONS):
            await cluster.until(lambda number=number: cluster.are_equal("t", number), within_s=30)
            await cluster.until(lambda number=number: len(controller.state("t", number).isr) == 3, within_s=30)
            found = values(cluster[1].bytes_of("t", number))
            assert cluster[1].log("t", number).high_watermark == len(found)
            acknowledged = producers[number].acknowledged
            assert len(acknowledged) > 20
            for offset, value in acknowledged.items():
                assert found[offset].startswith(value + b".") or found[offset] == value

    scenario()
