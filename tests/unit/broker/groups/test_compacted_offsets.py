"""``__consumer_offsets`` is compacted, and the groups are read from what is left."""

import asyncio

from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC
from tests.unit.broker.config_requests import SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import (
    commit,
    delete_groups,
    delete_offsets,
    fetch_offsets,
    list_groups,
    member,
    until_coordinated,
)
from tests.unit.broker.simulated_node import simulated

PARTITIONS = [("t", number) for number in range(20)]
METADATA = "m" * 4000
ROUNDS = 40


async def commit_often(client, *groups, first=0):
    """Fill some segments; the last offset of each partition is its number after ``first + ROUNDS``."""
    for number in range(first, first + ROUNDS):
        for group in groups:
            offsets = {place: number + 1 + place[1] for place in PARTITIONS}
            answer = await commit(client, offsets, group=group, metadata=METADATA)
            assert set(answer.values()) == {ErrorCode.none}


async def until_clean(node):
    """Wait until all sealed segments are compacted."""
    log = node.log(OFFSETS_TOPIC)
    for _ in range(10_000):
        if log.cleaned_to == log.sealed_end_offset > 0:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the log is not compacted")


@simulated(
    offsets_topic_num_partitions=1,
    offsets_topic_segment_bytes=1 << 20,
    log_cleaner_backoff_ms=100,
    log_cleaner_delete_retention_ms=0,
    group_initial_rebalance_delay_ms=0,
)
async def test_groups_are_read_from_a_compacted_log(node):
    client = await node.client()
    await create_topic(client, "t", 20)
    await until_coordinated(client, "g")
    await alter(client, (TOPIC, OFFSETS_TOPIC, ("min.cleanable.dirty.ratio", SET, "0.01")))
    joined = await member(client, "with members")
    await commit_often(client, "g", "gone")
    assert await delete_groups(client, "gone") == {"gone": ErrorCode.none}
    await delete_offsets(client, [("t", 3)], group="g")
    for first in (100, 200, 300):  # tombstones of the last round go in the next one
        await commit_often(client, "h", first=first)
        await until_clean(node)
    log = node.log(OFFSETS_TOPIC)
    assert log.size < 3 * (1 << 20), "of 16 MB"
    assert log.log_start_offset == 0

    await node.stop()
    await node.start()
    client = await node.client()
    await until_coordinated(client, "g")
    for _ in range(100):
        found = await fetch_offsets(client, None, group="g")
        if found is not ErrorCode.coordinator_load_in_progress:
            break
        await asyncio.sleep(0.1)
    assert node.log(OFFSETS_TOPIC).cleaned_to == log.cleaned_to
    assert found == {place: ROUNDS + place[1] for place in PARTITIONS if place != ("t", 3)}
    assert await fetch_offsets(client, None, group="h") == {place: 300 + ROUNDS + place[1] for place in PARTITIONS}
    assert await fetch_offsets(client, None, group="gone") == {}
    known = {group.group_id: group.group_state for group in (await list_groups(client)).groups}
    assert known == {"g": "Empty", "h": "Empty", "with members": "Stable"}
    assert joined.generation_id == 1
