import asyncio

import pytest

from esp.broker.apis import alter_partition_reassignments
from esp.broker.cluster_view.cache import MetadataCache
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, ms
from tests.unit.broker.played_server import in_world
from tests.unit.broker.simulated_node import model, simulated
from tests.unit.broker.test_forwarding import asked, services
from tests.unit.controller.samples import Cluster

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS


async def reassign(client, topic, replicas):
    types = model(KEY, 1)
    partition = types.ReassignablePartition(partition_index=0, replicas=replicas)
    topics = (types.ReassignableTopic(name=topic, partitions=(partition,)),)
    answer = await client.call(KEY, 1, types.Request(timeout=ms(1000), topics=topics))
    (topic_answer,) = answer.responses
    return topic_answer.partitions[0].error_code


@simulated()
async def test_a_broker_answers_when_it_knows_what_was_done(node):
    client = await node.client()
    await create_topic(client)
    assert await reassign(client, "t", (1,)) is ErrorCode.none
    assert await reassign(client, "t", (9,)) is ErrorCode.invalid_replica_assignment
    assert await reassign(client, "t", None) is ErrorCode.no_reassignment_in_progress
    assert await reassign(client, "u", (1,)) is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_an_answer_waits_for_metadata_in_which_it_is_done(is_cancelled):
    @in_world
    async def scenario(world):
        cluster, cache = Cluster(3), MetadataCache("cluster", NodeId(1))
        cluster.create_partition(1, 2)
        if is_cancelled:
            move(cluster, 1, 3)
        cache.publish(cluster.image)
        types = model(KEY, 1, "response")
        partition = types.ReassignablePartitionResponse(
            partition_index=0, error_code=ErrorCode.none, error_message=None
        )
        topic = types.ReassignableTopicResponse(name="t", partitions=(partition,))
        done = types.Request(throttle_time=ms(0), error_code=ErrorCode.none, error_message=None, responses=(topic,))
        types = model(KEY, 1)
        wanted = types.ReassignablePartition(partition_index=0, replicas=None if is_cancelled else (1, 3))
        request = types.Request(timeout=ms(1000), topics=(types.ReassignableTopic(name="t", partitions=(wanted,)),))
        played = services(world, done, metadata=cache)
        waiting = asyncio.create_task(alter_partition_reassignments.handle(played, asked(1), request))
        await asyncio.sleep(0.1)
        cluster.create_partition(3, topic="u")  # a change of something else
        cache.publish(cluster.image)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        move(cluster, *(() if is_cancelled else (1, 3)))
        cache.publish(cluster.image)
        await asyncio.sleep(0.1)
        assert waiting.result() is done

    scenario()


def move(cluster, *replicas):
    target = tuple(map(NodeId, replicas)) or None
    cluster.decide(decide_reassignments(cluster.image, [Reassignment("t", 0, target)]))
