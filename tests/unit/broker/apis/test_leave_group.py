import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.group_conversation import describe_group, heartbeat, leave, member, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(6))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_member_that_leaves_is_one_no_more(node, version):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    answer = await leave(client, joined.member_id, version=version)
    assert answer.error_code is ErrorCode.none
    if version >= 3:
        assert [(each.member_id, each.error_code) for each in answer.members] == [(joined.member_id, 0)]
    assert await heartbeat(client, joined) is ErrorCode.unknown_member_id
    assert (await describe_group(client)).group_state == "Empty"


@pytest.mark.parametrize("version", [2, 5])
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_nobody_who_is_unknown_can_leave(node, version):
    client = await node.client()
    await until_coordinated(client)
    await member(client)
    answer = await leave(client, "nobody", version=version)
    if version < 3:
        assert answer.error_code is ErrorCode.unknown_member_id
    else:
        assert answer.error_code is ErrorCode.none
        assert [each.error_code for each in answer.members] == [ErrorCode.unknown_member_id]
    assert (await leave(client, "m", group="", version=version)).error_code is ErrorCode.invalid_group_id
