from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import (
    commit,
    delete_offsets,
    errors_of,
    fetch_offsets,
    until_coordinated,
)
from tests.unit.broker.simulated_node import simulated


@simulated(offsets_topic_num_partitions=2)
async def test_offsets_are_forgotten_one_by_one(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7, ("t", 1): 8})
    answer = await delete_offsets(client, [("t", 0), ("t", 2), ("u", 0)])
    assert answer.error_code is ErrorCode.none
    unknown = ErrorCode.unknown_topic_or_partition
    assert errors_of(answer) == {("t", 0): ErrorCode.none, ("t", 2): unknown, ("u", 0): unknown}
    assert await fetch_offsets(client, None) == {("t", 1): 8}


@simulated(offsets_topic_num_partitions=2)
async def test_what_is_not_there_cannot_be_forgotten(node):
    client = await node.client()
    await create_topic(client)
    assert (await delete_offsets(client, [("t", 0)])).error_code is ErrorCode.not_coordinator
    await until_coordinated(client)
    answer = await delete_offsets(client, [("t", 0)])
    assert (answer.error_code, answer.topics) == (ErrorCode.group_id_not_found, ())
    assert (await delete_offsets(client, [("u", 0)])).error_code is ErrorCode.group_id_not_found
    assert (await delete_offsets(client, [("t", 0)], group="")).error_code is ErrorCode.invalid_group_id
