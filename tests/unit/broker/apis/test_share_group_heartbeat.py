import asyncio

import pytest

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.groups.memory_states import MemoryStates
from tests.unit.broker.guarded_node import ROOT, allow, client_of, guarded
from tests.unit.broker.guarded_node import until_coordinated as until_all_coordinated
from tests.unit.broker.share_group_conversation import SETTINGS, ShareClient, assigned, offer, scene, services_of
from tests.unit.broker.simulated_node import simulated


@simulated(**SETTINGS)
async def test_a_member_joins_is_assigned_partitions_and_leaves(node):
    client, states = await scene(node)
    joined = await client.beat()
    assert (joined.error_code, joined.error_message) == (ErrorCode.none, None)
    assert (joined.member_id, joined.member_epoch, assigned(joined)) == ("m", 2, {})
    assert joined.heartbeat_interval.total_seconds() == 5
    await asyncio.sleep(0.1)
    answer = await client.beat(epoch=2)
    assert (answer.member_epoch, list(assigned(answer).values())) == (3, [(0, 1)])
    assert states.numbers() == [0, 1]
    assert assigned(await client.beat(epoch=3)) is None
    left = await client.beat(epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.none, -1)


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        ({"member": ""}, ErrorCode.invalid_request),
        ({"group": ""}, ErrorCode.invalid_request),
        ({"topics": ()}, ErrorCode.invalid_request),
        ({"epoch": -2}, ErrorCode.invalid_request),
        ({"epoch": 1}, ErrorCode.group_id_not_found),
    ],
)
@simulated(**SETTINGS)
async def test_what_no_member_may_send_is_refused_with_a_message(node, request_, error):
    client, _ = await scene(node)
    answer = await client.beat(**request_)
    assert answer.error_code is error
    assert answer.error_message


@simulated(**SETTINGS)
async def test_a_node_that_coordinates_nothing_says_so(node):
    assert (await offer(node, MemoryStates()).client.beat()).error_code is ErrorCode.not_coordinator


@simulated(group_share_max_size=1, group_share_heartbeat_interval_ms=700, **SETTINGS)
async def test_settings_of_the_node_count(node):
    client, _ = await scene(node)
    assert (await client.beat()).heartbeat_interval.total_seconds() == 0.7
    assert (await client.beat("n")).error_code is ErrorCode.group_max_size_reached


@simulated(group_share_session_timeout_ms=3_000, **SETTINGS)
async def test_a_silent_member_is_out_after_its_session(node):
    client, _ = await scene(node)
    await client.beat()
    await asyncio.sleep(2)
    assert (await client.beat(epoch=2)).error_code is ErrorCode.none
    await asyncio.sleep(4)
    assert (await client.beat(epoch=2)).error_code is ErrorCode.unknown_member_id


@guarded()
async def test_a_member_describes_each_topic_that_it_subscribes_to(node):
    offer(node, MemoryStates())
    root = await client_of(node, ROOT)
    await until_all_coordinated(root)
    await create_topic(root)
    client = ShareClient(services_of(node), "User:a")
    assert (await client.beat()).error_code is ErrorCode.topic_authorization_failed
    await allow(root, "User:a", AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
    assert (await client.beat()).error_code is ErrorCode.none
    assert (await client.beat("n", topics=("t", "u"))).error_code is ErrorCode.topic_authorization_failed
