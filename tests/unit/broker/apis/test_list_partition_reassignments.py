from dataclasses import replace
from types import SimpleNamespace

import pytest
from kio.schema.list_partition_reassignments.v0.request import (
    ListPartitionReassignmentsTopics,
)

from esp.broker.apis.list_partition_reassignments import handle_at_controller
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey
from esp.protocol.trash import ListPartitionReassignmentsRequest
from tests.unit.broker.conversation import create_topic, ms
from tests.unit.broker.simulated_node import model, simulated
from tests.unit.controller.samples import Cluster


def _services(*, is_active=True):
    """A topic of two partitions, the second of which moves from broker 2 to broker 3."""
    cluster = Cluster(3)
    assignments = ((0, (NodeId(1),)), (1, (NodeId(2),)))
    cluster.create(NewTopic(name="t", assignments=assignments), NewTopic(name="u", num_partitions=1))
    topic = cluster.image.topics_by_name["t"]
    moving = replace(
        topic.partitions[1],
        replicas=(NodeId(3), NodeId(2)),
        adding_replicas=(NodeId(3),),
        removing_replicas=(NodeId(2),),
    )
    topics = {**cluster.image.topics_by_name, "t": replace(topic, partitions=(topic.partitions[0], moving))}
    image = replace(cluster.image, topics_by_name=topics)
    return SimpleNamespace(metadata=SimpleNamespace(image=image), controller=SimpleNamespace(is_active=is_active))


def _ask(topics, **options):
    wanted = topics and tuple(
        ListPartitionReassignmentsTopics(name=name, partition_indexes=numbers) for name, numbers in topics
    )
    answer = handle_at_controller(
        _services(**options), None, ListPartitionReassignmentsRequest(timeout=ms(0), topics=wanted)
    )
    return [
        (topic.name, it.partition_index, it.replicas, it.adding_replicas, it.removing_replicas)
        for topic in answer.topics
        for it in topic.partitions
    ]


MOVING = ("t", 1, (3, 2), (3,), (2,))


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        (None, [MOVING]),
        ([("t", (0, 1, 9, -1)), ("missing", (0,)), ("u", (0,))], [MOVING]),
        ([("t", (0,))], []),
        ([], []),
    ],
)
def test_partitions_that_move_are_listed(topics, found):
    assert _ask(topics) == found


def test_only_the_active_controller_says():
    with pytest.raises(ApiError) as raised:
        _ask(None, is_active=False)
    assert raised.value.code is ErrorCode.not_controller


@simulated()
async def test_a_broker_passes_the_answer_on(node):
    client = await node.client()
    await create_topic(client)
    types = model(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0)
    answer = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, types.Request(timeout=ms(1000), topics=None))
    assert (answer.error_code, answer.topics) == (ErrorCode.none, ())
