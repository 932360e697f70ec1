"""Topics that are deleted and created again, through a whole node: with ``continue`` their offsets go on where the last ones ended."""

import asyncio

import pytest

from esp.controller.floor_records import FLOOR_PREFIX
from esp.model.errors import ErrorCode
from esp.model.offset_floor import OFFSET_RESERVE, OFFSET_SPAN, floor_of
from tests.unit.broker.conversation import create_topic, delete_topic, fetch, list_offset, produce
from tests.unit.broker.simulated_node import records, simulated, values

CONTINUE = {"topic_recreate_offsets": "continue"}


async def ends(client, topic="t", partition=0):
    """Earliest and latest offset, and the leader epoch of the latest."""
    earliest = await list_offset(client, topic, -2, partition=partition)
    latest = await list_offset(client, topic, -1, partition=partition)
    return earliest.offset, latest.offset, latest.leader_epoch


async def recreated(node, *, partitions=1, count=3):
    """A topic with ``count`` records is deleted and created again at once."""
    client = await node.client()
    await create_topic(client, partitions=partitions, **CONTINUE)
    for _ in range(count):
        assert (await produce(client, "t", records(b"old"))).error_code is ErrorCode.none
    await delete_topic(client, "t")
    await create_topic(client, partitions=partitions, **CONTINUE)
    return client


@simulated()
async def test_offsets_go_on_at_the_old_end(node):
    client = await recreated(node)
    assert await ends(client) == (3, 3, 1)
    assert (await produce(client, "t", records(b"new"))).base_offset == 3
    assert values((await fetch(client, "t", 3)).records) == [b"new"]
    for offset in (0, 2, 5):
        assert (await fetch(client, "t", offset)).error_code is ErrorCode.offset_out_of_range


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("end", ["stop", "kill", "power loss"])
def test_the_start_survives_the_process_and_the_machine(end, written):
    @simulated()
    async def scenario(node):
        client = await recreated(node)
        if written:
            await produce(client, "t", records(b"new"))
            await node.replicas.flush(node.hosted("t"))
        for _ in range(2):
            if end == "stop":
                await node.stop()
                await node.start()
            else:
                await node.restart(power=end == "power loss")
            client = await node.client()
            earliest, latest, _ = await ends(client)
            assert (earliest, latest) == (3, 3 + written)
        assert (await produce(client, "t", records(b"newer"))).base_offset == 3 + written

    scenario()


@pytest.mark.parametrize("lost", ["directory", "segment", "checkpoints"])
def test_a_log_that_has_lost_files_does_not_begin_below_its_start(lost):
    @simulated()
    async def scenario(node):
        await recreated(node)
        await node.stop()
        gone = {
            "segment": ["/data/t-0/00000000000000000003.log"],
            "checkpoints": [f"/data/{name}" for name in node.names() if name.endswith("-offset-checkpoint")],
            "directory": ["/data/t-0"],
        }[lost]
        for path in gone:
            node.disk.remove_tree(path) if lost == "directory" else node.disk.remove(path)
        await node.start()
        await asyncio.sleep(1)
        client = await node.client()
        assert (await ends(client))[:2] == (3, 3)

    scenario()


@simulated()
async def test_a_node_that_is_killed_right_after_the_deletion_begins_far_above(node):
    client = await node.client()
    await create_topic(client, **CONTINUE)
    await produce(client, "t", records(b"old"))
    deletion = asyncio.ensure_future(delete_topic(client, "t"))
    await node.metadata.until(lambda image: "t" not in image.topics_by_name)
    await node.restart(power=True)
    deletion.cancel()
    client = await node.client()
    assert not floor_of(node.metadata.image.offset_floors["t"], 0).is_exact
    await create_topic(client, **CONTINUE)
    assert await ends(client) == (OFFSET_SPAN, OFFSET_SPAN, 1)
    assert (await produce(client, "t", records(b"new"))).base_offset == OFFSET_SPAN


@simulated(topic_recreate_offsets="continue")
async def test_the_nodes_own_setting_counts_for_topics_without_one(node):
    client = await node.client()
    for _ in range(3):
        await create_topic(client, partitions=2)
        await produce(client, "t", records(b"x"), partition=1)
        await delete_topic(client, "t")
    await create_topic(client, partitions=3)
    assert [await ends(client, partition=number) for number in range(3)] == [(0, 0, 3), (3, 3, 3), (0, 0, 0)]


@simulated()
async def test_no_log_ends_beyond_its_span(node):
    client = await node.client()
    await create_topic(client, **CONTINUE)
    await create_topic(client, "u")
    for topic in "tu":
        node.log(topic).truncate_fully_and_start_at(OFFSET_SPAN - OFFSET_RESERVE - 1)
    answer = await produce(client, "t", records(b"a", b"b"))
    assert answer.error_code is ErrorCode.policy_violation
    assert "topic.recreate.offsets=continue" in answer.error_message
    assert (await produce(client, "t", records(b"a"))).error_code is ErrorCode.none
    assert (await produce(client, "t", records(b"a"))).error_code is ErrorCode.policy_violation
    assert (await produce(client, "u", records(b"a", b"b"))).error_code is ErrorCode.none


@simulated()
async def test_floors_are_no_settings_of_the_topic(node):
    await recreated(node)
    assert not any(name.startswith(FLOOR_PREFIX) for name in node.metadata.image.topics_by_name["t"].configs)
