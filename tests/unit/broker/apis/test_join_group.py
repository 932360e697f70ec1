import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.group_conversation import describe_group, join, join_later, member, until_coordinated
from tests.unit.broker.simulated_node import simulated


@pytest.mark.parametrize("version", range(10))
@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_lone_member_leads_its_generation(node, version):
    client = await node.client()
    await until_coordinated(client)
    answer = await join_later(client, version=version)
    if version >= 4:
        assert answer.error_code is ErrorCode.member_id_required
        assert answer.member_id.startswith("test-")
        assert (answer.generation_id, answer.protocol_name) == (-1, None if version >= 7 else "")
        answer = await join_later(client, member_id=answer.member_id, version=version)
    assert (answer.error_code, answer.generation_id, answer.protocol_name) == (0, 1, "range")
    assert answer.leader == answer.member_id
    assert [(each.member_id, each.metadata) for each in answer.members] == [(answer.member_id, b"m")]
    if version >= 7:
        assert answer.protocol_type == "consumer"


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=3000)
async def test_members_that_come_within_the_delay_are_of_one_generation(node):
    first, second = await node.client(), await node.client()
    await until_coordinated(first)
    began = node.loop.time()
    one = join_later(first, version=3)
    two = join_later(second, version=3)
    one, two = await one, await two
    assert node.loop.time() - began >= 3
    assert one.generation_id == two.generation_id == 1
    assert one.leader == two.leader
    assert sorted(len(each.members) for each in (one, two)) == [0, 2]


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_waiting_member_holds_up_no_other_connection(node):
    first, second = await node.client(), await node.client()
    await until_coordinated(first)
    joined = await member(first)
    waiting = join_later(second, version=3)
    while (await describe_group(first)).group_state != "PreparingRebalance":
        pass
    assert not waiting.done()
    again = await join_later(first, member_id=joined.member_id, version=3)
    assert again.generation_id == 2
    assert (await waiting).generation_id == 2


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_a_member_shows_the_client_and_the_host_that_it_came_from(node):
    client = await node.client()
    await until_coordinated(client)
    await member(client)
    (told,) = (await describe_group(client)).members
    assert told.client_id == "test"
    assert told.client_host.startswith("/")


@simulated(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=0)
async def test_the_rebalance_timeout_of_the_first_version_is_the_session_timeout(node):
    first, second = await node.client(), await node.client()
    await until_coordinated(first)
    await member(first, version=0, session_ms=6000)
    began = node.loop.time()
    other = await join_later(second, version=0, session_ms=6000)
    assert 5 <= node.loop.time() - began <= 7
    assert len(other.members) == 1


@pytest.mark.parametrize("version", [0, 6, 9])
@simulated(offsets_topic_num_partitions=2)
async def test_what_cannot_be_asked_is_told(node, version):
    client = await node.client()
    answer = await join_later(client, member_id="me", version=version)
    assert (answer.error_code, answer.member_id) == (ErrorCode.not_coordinator, "me")
    answer = await join_later(client, group="", version=version)
    assert answer.error_code is ErrorCode.invalid_group_id
    await until_coordinated(client)
    answer = await join_later(client, session_ms=1, version=version)
    assert answer.error_code is ErrorCode.invalid_session_timeout
    answer = await join(client, protocols=(), version=version)
    assert answer.error_code is ErrorCode.inconsistent_group_protocol
