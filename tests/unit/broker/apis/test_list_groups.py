import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import commit, list_groups, member, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(6))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_all_groups_of_the_node_are_listed(node, version):
    client = await node.client()
    assert (await list_groups(client, version=version)).groups == ()
    await create_topic(client)
    await until_coordinated(client)
    await member(client, "members")
    await commit(client, {("t", 0): 1}, group="offsets")
    answer = await list_groups(client, version=version)
    assert answer.error_code is ErrorCode.none
    assert {each.group_id: each.protocol_type for each in answer.groups} == {"members": "consumer", "offsets": ""}
    if version >= 4:
        assert {each.group_id: each.group_state for each in answer.groups} == {"members": "Stable", "offsets": "Empty"}
    if version >= 5:
        assert {each.group_type for each in answer.groups} == {"classic"}


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_groups_are_found_by_state_and_type(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    await member(client, "members")
    await commit(client, {("t", 0): 1}, group="offsets")

    async def listed(**filters):
        return [each.group_id for each in (await list_groups(client, **filters)).groups]

    assert await listed(states_filter=("stable",)) == ["members"]
    assert await listed(states_filter=("Empty", "Dead")) == ["offsets"]
    assert sorted(await listed(types_filter=("classic",))) == ["members", "offsets"]
    assert await listed(types_filter=("consumer",)) == []
