"""Warnings of partitions that cannot be fetched: a line for each cause, not for each partition."""

import asyncio

from esp.broker.replication.fetcher import FetchTroubles
from esp.model.ids import NodeId, TopicPartition
from tests.unit.broker.played_server import in_world


def lines(caplog):
    return [record.getMessage() for record in caplog.records if record.name == "esp.broker.replication.fetcher"]


def test_a_thousand_partitions_with_one_cause_are_one_line(caplog):
    @in_world
    async def scenario(world):
        troubles = FetchTroubles(world.env.clock, NodeId(3))
        for number in range(1000):
            troubles.add(TopicPartition("t", number), "unknown_topic_id")
            troubles.add(TopicPartition("t", number), "unknown_topic_id")
        troubles.add(TopicPartition("u", 0), "not_leader_or_follower")
        assert not lines(caplog)
        await asyncio.sleep(2)

    scenario()
    assert lines(caplog) == [
        "t-0, t-1, t-2 and 997 other partitions cannot be fetched from node 3: unknown_topic_id",
        "u-0 cannot be fetched from node 3: not_leader_or_follower",
    ]


def test_what_happens_again_later_is_told_again(caplog):
    @in_world
    async def scenario(world):
        troubles = FetchTroubles(world.env.clock, NodeId(3))
        for _ in range(2):
            troubles.add(TopicPartition("t", 0), "unknown_topic_id")
            await asyncio.sleep(2)

    scenario()
    assert len(lines(caplog)) == 2
