import asyncio

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.group_conversation import join, sync_later, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(6))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_the_leaders_assignment_is_given(node, version):
    client = await node.client()
    await until_coordinated(client)
    joined = await join(client)
    answer = await sync_later(client, joined, {joined.member_id: b"mine"}, version=version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=3000)
async def test_a_follower_waits_for_the_leader(node):
    clients = [await node.client(), await node.client()]
    await until_coordinated(clients[0])
    joining = [join(client, version=3) for client in clients]
    joined = await asyncio.gather(*joining)
    leader = next(number for number, each in enumerate(joined) if each.leader == each.member_id)
    waiting = sync_later(clients[1 - leader], joined[1 - leader])
    await asyncio.sleep(1)
    assert not waiting.done()
    assignments = {each.member_id: each.member_id.encode() for each in joined}
    own = await sync_later(clients[leader], joined[leader], assignments)
    assert own.assignment == joined[leader].member_id.encode()
    assert (await waiting).assignment == joined[1 - leader].member_id.encode()


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_what_does_not_fit_is_refused(node):
    client = await node.client()
    await until_coordinated(client)
    joined = await join(client)
    answer = await sync_later(client, joined, protocol_type=None)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = await sync_later(client, joined, protocol_type="connect")
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
    answer = await sync_later(client, joined, group="", version=4)
    assert answer.error_code is ErrorCode.invalid_group_id
    answer = await sync_later(client, joined, group="other")
    assert answer.error_code is ErrorCode.unknown_member_id
