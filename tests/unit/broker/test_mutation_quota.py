"""Topics are created, grown and deleted at a rate: each of their partitions counts (KIP-599)."""

import asyncio

import pytest

from esp.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from esp.model.errors import ErrorCode
from tests.unit.broker.apis.test_create_partitions import grow
from tests.unit.broker.conversation import create_topic, create_topics, delete_topic
from tests.unit.broker.guarded_node import ROOT, allow, client_of, client_of_controller, guarded
from tests.unit.broker.quotas.test_quotas_of_a_node import alter
from tests.unit.broker.simulated_node import simulated

NONE, EXCEEDED = ErrorCode.none, ErrorCode.throttling_quota_exceeded
MANY = 30
"""More partitions than may be changed at once."""


async def limited(node, *names):
    """A client that may change one partition a second, and the ids of topics of many partitions that are there."""
    administrator = await node.client()
    ids = [await create_topic(administrator, name, MANY) for name in names]
    await alter(administrator, {"client-id": "test"}, controller_mutation_rate=1)
    return await node.client(), ids


async def create(client, name, partitions):
    (answer,) = await create_topics(client, [(name, partitions, {})])
    return answer.error_code


async def grow_one(client, name, count):
    ((_, code, _),) = await grow(client, (name, count))
    return code


@pytest.mark.parametrize("by_id", [False, True])
@simulated()
async def test_a_topic_that_is_deleted_counts_by_its_partitions(node, by_id):
    client, ids = await limited(node, "t", "u")
    assert (await delete_topic(client, ids[0] if by_id else "t")).error_code is NONE
    assert (await delete_topic(client, ids[1] if by_id else "u")).error_code is EXCEEDED


@simulated()
async def test_a_new_topic_counts_by_its_partitions(node):
    client, _ = await limited(node)
    assert await create(client, "t", MANY) is NONE
    assert await create(client, "u", 1) is EXCEEDED


@simulated(num_partitions=MANY)
async def test_a_topic_of_the_default_size_counts_by_it(node):
    client, _ = await limited(node)
    assert await create(client, "t", -1) is NONE
    assert await create(client, "u", -1) is EXCEEDED


@simulated()
async def test_only_the_partitions_that_are_added_count(node):
    client, _ = await limited(node, "t")
    assert await grow_one(client, "t", MANY + 1) is NONE
    assert await grow_one(client, "t", 3 * MANY) is NONE
    assert await grow_one(client, "t", 3 * MANY + 1) is EXCEEDED


@simulated()
async def test_what_is_refused_for_another_reason_does_not_count(node):
    client, _ = await limited(node, "t")
    for _ in range(2):
        assert await create(client, "t", MANY) is ErrorCode.topic_already_exists
        assert await grow_one(client, "t", MANY - 1) is ErrorCode.invalid_partitions
        assert (await delete_topic(client, "missing")).error_code is ErrorCode.unknown_topic_or_partition
    assert await create(client, "u", MANY) is NONE


@guarded()
async def test_a_quota_that_is_removed_lets_clients_of_the_controllers_listener_go_on(node):
    root, alice = await client_of(node, ROOT), await client_of_controller(node, "User:alice")
    await allow(root, "User:alice", AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)
    await alter(root, {"user": "alice"}, controller_mutation_rate=0.01)
    assert await create(alice, "t", MANY) is NONE
    assert await create(alice, "u", 1) is EXCEEDED
    waiting = asyncio.ensure_future(create(alice, "u", 1))
    await asyncio.sleep(60)
    assert not waiting.done(), "its connection is read no further"
    await alter(root, {"user": "alice"}, controller_mutation_rate=None)
    assert await asyncio.wait_for(waiting, 1) is NONE
