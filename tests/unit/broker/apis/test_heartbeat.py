import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.group_conversation import heartbeat, member, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(5))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_member_is_told_whether_it_still_is_one(node, version):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    assert await heartbeat(client, joined, version=version) is ErrorCode.none
    assert await heartbeat(client, joined, group="", version=version) is ErrorCode.invalid_group_id
    assert await heartbeat(client, joined, group="other", version=version) is ErrorCode.unknown_member_id


@simulated(offsets_topic_num_partitions=2)
async def test_there_is_no_coordinator_before_the_first_group(node):
    client = await node.client()
    nobody = type("Joined", (), {"generation_id": 1, "member_id": "m"})
    assert await heartbeat(client, nobody) is ErrorCode.not_coordinator


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_while_the_group_is_read_all_is_well(node, monkeypatch):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    [coordinator] = node.node.broker.running.groups._coordinators.values()
    monkeypatch.setattr(coordinator, "_is_loaded", False)
    assert await heartbeat(client, joined) is ErrorCode.none


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_a_coordinator_that_leads_no_more_says_so(node, monkeypatch):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    [coordinator] = node.node.broker.running.groups._coordinators.values()
    monkeypatch.setattr(coordinator, "_leads", lambda: False)
    assert await heartbeat(client, joined) is ErrorCode.not_coordinator
