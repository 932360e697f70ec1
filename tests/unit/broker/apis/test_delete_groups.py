import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import (
    commit,
    delete_groups,
    fetch_offsets,
    list_groups,
    member,
    until_coordinated,
)
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(3))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_groups_without_members_go_with_their_offsets(node, version):
    client = await node.client()
    await create_topic(client)
    assert await delete_groups(client, "a", version=version) == {"a": ErrorCode.not_coordinator}
    await until_coordinated(client)
    await member(client, "busy")
    for group in ("a", "b"):
        await commit(client, {("t", 0): 7}, group=group)
    assert await delete_groups(client, "a", "busy", "none", "b", "a", version=version) == {
        "a": ErrorCode.none,
        "busy": ErrorCode.non_empty_group,
        "none": ErrorCode.group_id_not_found,
        "b": ErrorCode.none,
    }
    assert [each.group_id for each in (await list_groups(client)).groups] == ["busy"]
    assert await fetch_offsets(client, [("t", 0)], group="a") == {("t", 0): -1}
