from collections.abc import Generator

import pytest

from esp.broker.apis.consumer_group_heartbeat import AT_ONCE_PARTITIONS, _answer, _response
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.model.errors import ErrorCode
from esp.protocol.progress import whole
from esp.schemas.consumer_group_records import TopicIdPartition
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import until_coordinated
from tests.unit.broker.groups.test_expressions import beat
from tests.unit.broker.simulated_node import simulated
from tests.unit.groups.world import topic_id

PARTITIONS = AT_ONCE_PARTITIONS + 1


@simulated(offsets_topic_num_partitions=1)
async def test_a_large_assignment_is_told_whole(node):
    client = await node.client()
    await create_topic(client, "t", partitions=PARTITIONS)
    await until_coordinated(client)
    answer = await beat(client, "t")
    assert answer.error_code is ErrorCode.none
    (topic,) = answer.assignment.topic_partitions
    assert topic.partitions == tuple(range(PARTITIONS))


@pytest.mark.parametrize(("count", "is_sliced"), [(0, False), (AT_ONCE_PARTITIONS, False), (PARTITIONS, True)])
def test_a_large_assignment_is_told_in_slices(count, is_sliced):
    assignment = frozenset(TopicIdPartition(topic_id(number % 3), number) for number in range(count))
    result = ConsumerGroupHeartbeatResult(member_id="m", member_epoch=3, assignment=assignment)
    answer = _answer(result)
    assert isinstance(answer, Generator) == is_sliced
    assert (whole(answer) if is_sliced else answer) == _response(result)
