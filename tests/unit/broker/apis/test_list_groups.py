import pytest

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import commit, list_groups, member, until_coordinated
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded
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


@guarded()
async def test_the_positions_of_groups_are_for_brokers_only(node):
    root = await client_of(node, ROOT)
    await create_topic(root)
    await until_coordinated(root)
    await commit(root, {("t", 0): 1}, group="g")
    (coordinator,) = node.node.broker.running.groups
    asked = {
        "held_topics": [{"name": "t", "groups": ["g"], "partitions": [0]}],
        "coordinators": [{"partition": 0, "leader_epoch": coordinator.leader_epoch}],
    }
    answer = await ask(root, ApiKey.LIST_GROUPS, 5, **asked)
    [known] = answer.coordinators
    assert [(each.group_id, each.topic, each.offset) for each in known.positions] == [("g", "t", 1)]

    await allow(root, "User:tool", AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")
    tool = await client_of(node, "User:tool")
    answer = await ask(tool, ApiKey.LIST_GROUPS, 5, **asked)
    assert (answer.coordinators, answer.groups) == (None, ())
    assert [each.group_id for each in (await list_groups(tool)).groups] == ["g"]
