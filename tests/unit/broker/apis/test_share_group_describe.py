import asyncio

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, delete_topic
from tests.unit.broker.group_conversation import commit, delete_groups, describe_group, list_groups
from tests.unit.broker.groups.memory_states import MemoryStates
from tests.unit.broker.guarded_node import ROOT, allow, client_of, guarded
from tests.unit.broker.guarded_node import until_coordinated as until_all_coordinated
from tests.unit.broker.share_group_conversation import SETTINGS, ShareClient, offer, scene, services_of
from tests.unit.broker.simulated_node import simulated


@simulated(**SETTINGS)
async def test_a_group_is_described_with_its_members_and_what_they_read(node):
    client, _ = await scene(node)
    await client.beat(rack="r")
    await asyncio.sleep(0.1)
    await client.beat(epoch=2)
    [group] = await client.describe("g")
    assert (group.error_code, group.error_message, group.group_id) == (ErrorCode.none, None, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 3, 3)
    assert (group.assignor_name, group.authorized_operations) == ("simple", -(2**31))
    [member] = group.members
    assert (member.member_id, member.rack_id, member.member_epoch) == ("m", "r", 3)
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.subscribed_topic_names == ("t",)
    [topic] = member.assignment.topic_partitions
    assert (topic.topic_name, topic.partitions) == ("t", (0, 1))
    await delete_topic(await node.client(), "t")
    [group] = await client.describe("g")
    assert group.members[0].assignment.topic_partitions == ()


@simulated(**SETTINGS)
async def test_groups_that_are_none_of_share_members_say_why(node):
    client, _ = await scene(node)
    await commit(await node.client(), {("t", 0): 1}, group="classic")
    classic, none, nameless = await client.describe("classic", "none", "", with_operations=True)
    assert (classic.error_code, classic.error_message) == (
        ErrorCode.group_id_not_found,
        "Group classic is not a share group.",
    )
    assert (none.error_code, none.error_message) == (ErrorCode.group_id_not_found, "Group none not found.")
    assert (none.group_state, none.assignor_name, none.authorized_operations) == ("", "", -(2**31))
    assert nameless.error_code is ErrorCode.invalid_group_id


@simulated(**SETTINGS)
async def test_operations_are_told_on_request(node):
    client, _ = await scene(node)
    await client.beat()
    [group] = await client.describe("g", with_operations=True)
    assert group.authorized_operations > 0


@simulated(**SETTINGS)
async def test_a_share_group_is_listed_described_as_no_classic_one_and_deleted_with_its_states(node):
    client, states = await scene(node)
    other = await node.client()
    await client.beat()
    await asyncio.sleep(0.1)
    [listed] = (await list_groups(other, version=5, types_filter=("share",))).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "share",
        "Stable",
        "share",
    )
    assert (await describe_group(other, "g")).error_code is ErrorCode.group_id_not_found
    assert await delete_groups(other, "g") == {"g": ErrorCode.non_empty_group}
    await client.beat(epoch=-1)
    assert states.numbers() == [0, 1]
    assert await delete_groups(other, "g") == {"g": ErrorCode.none}
    assert states.numbers() == []
    assert (await list_groups(other)).groups == ()


@guarded()
async def test_a_group_with_a_topic_that_the_client_may_not_know_of_is_refused_as_a_whole(node):
    offer(node, MemoryStates())
    root = await client_of(node, ROOT)
    await until_all_coordinated(root)
    await create_topic(root)
    await ShareClient(services_of(node), ROOT).beat()
    client = ShareClient(services_of(node), "User:a")
    [group] = await client.describe("g", with_operations=True)
    assert group.error_code is ErrorCode.topic_authorization_failed
    assert group.members == ()
    await allow(root, "User:a", AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
    [group] = await client.describe("g")
    assert (group.error_code, len(group.members)) == (ErrorCode.none, 1)
