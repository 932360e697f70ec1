"""What a node's guard of the trash asks for is held against the node's disk."""

import asyncio

import pytest

from esp.broker.replication import trash_guard
from esp.broker.replication.trash_guard import GUARD_INTERVAL_MS, find_surplus
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.early_purges import MAX_BYTES, EarlyPurges, find_left
from esp.simulation.workload import admin_requests
from tests.unit.broker.conversation import create_topic, delete_topic, produce
from tests.unit.broker.simulated_node import records, simulated

GUARD_S = GUARD_INTERVAL_MS / 1000


async def fill_trash(node, names):
    """Topics that were deleted in that order, with 100 kB each."""
    client = await node.client()
    for name in names:
        await create_topic(client, name, topic_trash_retention_ms="3600000")
        await produce(client, name, records(bytes(100_000)))
        await delete_topic(client, name)
    return client


async def watch(node, max_bytes, names="abc"):
    """The topics that are left of those in the trash when it may have so many bytes, and what a checker finds while the others go."""
    found = []
    purges = EarlyPurges(found.append)
    with purges.watched():
        client = await fill_trash(node, names)
        request = admin_requests.alter_configs(admin_requests.BROKER, {"": {MAX_BYTES: str(max_bytes)}})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request)
        await asyncio.sleep(4 * GUARD_S)
    left = [trashed.topic.name for trashed in node.metadata.image.trashed_topics.values()]
    assert len(purges.asked) == len(names) - len(left)
    return left, found


@simulated()
async def test_the_first_deleted_go_until_there_is_room(node):
    assert await watch(node, 250_000) == (["b", "c"], [])


@simulated()
async def test_nothing_is_asked_for_where_there_is_room(node):
    assert await watch(node, 400_000) == (["a", "b", "c"], [])


@simulated()
async def test_a_full_disk_empties_the_trash(node):
    found = []
    with EarlyPurges(found.append).watched():
        await fill_trash(node, "ab")
        node.disk.fill_up(2**30)
        await asyncio.sleep(3 * GUARD_S)
    assert not node.metadata.image.trashed_topics
    assert found == []


def _newest_first(sizes, **bounds):
    return find_surplus(list(reversed(list(sizes))), **bounds)


def _one_too_many(sizes, **bounds):
    sizes = list(sizes)
    surplus = find_surplus(sizes, **bounds)
    return [topic_id for topic_id, _ in sizes[: len(surplus) + 1]] if surplus else []


@pytest.mark.parametrize(
    ("broken", "fault"), [(_newest_first, "which was deleted first"), (_one_too_many, "goes though")]
)
def test_a_guard_that_asks_for_others_is_found(broken, fault, monkeypatch):
    monkeypatch.setattr(trash_guard, "find_surplus", broken)
    seen = []

    @simulated()
    async def watched(node):
        seen.extend((await watch(node, 250_000))[1])

    watched()
    assert seen
    assert all(violation.invariant == "INV-TRASH" for violation in seen)
    assert fault in str(seen[0])


@simulated()
async def test_what_is_left_of_a_purged_topic_is_found(node):
    await fill_trash(node, "ab")
    first, second = node.metadata.image.trashed_topics
    assert find_left(node.disk, ["/data"], {first, second}) == []
    (path,) = find_left(node.disk, ["/data"], {second})
    assert path.startswith("/data/a-0.")
