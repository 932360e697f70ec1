from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, ms
from tests.unit.broker.simulated_node import model, simulated

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
