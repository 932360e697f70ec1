import asyncio
from types import SimpleNamespace

import pytest

from esp.broker.apis import alter_partition_reassignments
from esp.broker.cluster_view.cache import MetadataCache
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ApiError, ErrorCode
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


DONE, IN_PROGRESS = ErrorCode.none, ErrorCode.no_reassignment_in_progress


class Controller:
    """Answers a reassignment, and asked for the quorum says that its log ends with the metadata of ``cluster``; a test may make it mute."""

    def __init__(self, cluster, error):
        self.cluster = cluster
        self.error = error
        self.is_mute = False

    async def call(self, api_key, _message, **_options):
        if api_key is ApiKey.DESCRIBE_QUORUM:
            if self.is_mute:
                raise ApiError(ErrorCode.request_timed_out)
            leader = SimpleNamespace(replica_id=NodeId(1), log_end_offset=self.cluster.image.offset + 1)
            partition = SimpleNamespace(leader_id=NodeId(1), current_voters=[leader], observers=[])
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[partition])])
        partition = SimpleNamespace(partition_index=0, error_code=self.error, error_message=None)
        return SimpleNamespace(trash_topic=None, responses=[SimpleNamespace(name="t", partitions=[partition])])


def handling(play, *, error=DONE):
    """Let ``play`` see what a broker makes of a request to move t-0: the task of the handler, the controller's cluster, metadata."""

    @in_world
    async def scenario(world):
        cluster, cache = Cluster(3), MetadataCache("cluster", NodeId(1))
        cluster.create_partition(1, 2)
        cache.publish(cluster.image)
        played = services(world, None, metadata=cache)
        played.controller = Controller(cluster, error)
        types = model(KEY, 1)
        wanted = types.ReassignableTopic(
            name="t", partitions=(types.ReassignablePartition(partition_index=0, replicas=(1, 3)),)
        )
        request = types.Request(timeout=ms(1000), topics=(wanted,))
        task = asyncio.ensure_future(alter_partition_reassignments.handle(played, asked(1), request))
        await play(SimpleNamespace(task=task, cluster=cluster, cache=cache, controller=played.controller))

    scenario()


def test_an_answer_waits_for_metadata_in_which_it_is_done():
    """Another change of the partition is not the one that was asked for."""

    async def play(seen):
        seen.cluster.decide(decide_reassignments(seen.cluster.image, [Reassignment("t", 0, (NodeId(2), NodeId(1)))]))
        elsewhere = seen.cluster.image
        seen.cluster.decide(decide_reassignments(seen.cluster.image, [Reassignment("t", 0, (NodeId(1), NodeId(3)))]))
        await asyncio.sleep(0.1)
        seen.cache.publish(elsewhere)
        await asyncio.sleep(0.1)
        assert not seen.task.done()
        seen.cache.publish(seen.cluster.image)
        await asyncio.sleep(0.1)
        (topic,) = seen.task.result().responses
        assert topic.partitions[0].error_code is DONE

    handling(play)


def test_what_is_refused_is_answered_at_once():
    async def play(seen):
        seen.cluster.create_partition(3, topic="u")
        await asyncio.sleep(0.1)
        (topic,) = seen.task.result().responses
        assert topic.partitions[0].error_code is IN_PROGRESS

    handling(play, error=IN_PROGRESS)


@pytest.mark.parametrize("is_mute", [False, True])
def test_what_is_done_is_told_though_this_node_does_not_know_of_it_in_time(is_mute, caplog):
    async def play(seen):
        seen.controller.is_mute = is_mute
        seen.cluster.create_partition(3, topic="u")
        await asyncio.sleep(0.1)
        assert seen.task.done() is is_mute
        await asyncio.sleep(1)
        (topic,) = seen.task.result().responses
        assert topic.partitions[0].error_code is DONE

    handling(play)
    assert "clients are answered before this node has applied their change" in caplog.text
