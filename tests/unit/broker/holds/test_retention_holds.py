"""Topics whose groups hold their records against retention, through a whole node (HOLD-1 to HOLD-7)."""

import asyncio

import pytest

from esp.broker.replication.retention_holds import RetentionHolds
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.retention_hold import CAP_BYTES, CAP_MS, DELETE_RECORDS, DELETE_TOPICS, BrokenHold
from esp.protocol.registry import ApiKey
from esp.replication.log_holds import GroupHold
from tests.unit.broker.config_requests import DELETE, SET, TOPIC, alter, describe
from tests.unit.broker.conversation import create_topic, create_topics, delete_topic, model, ms, produce
from tests.unit.broker.group_conversation import commit, delete_groups, delete_offsets, until_coordinated
from tests.unit.broker.groups.memory_states import MemoryStates
from tests.unit.broker.share_group_conversation import SETTINGS, errors, offer
from tests.unit.broker.simulated_node import records, simulated

CHECKS = {"log_initial_task_delay_ms": 1000, "log_retention_check_interval_ms": 1000}
SEGMENT_BYTES = 1024 * 1024
PASS_S = 3
"""A check comes about in this time, and its segments are gone."""


async def held_topic(node, count=5, **configs):
    """A topic of old records, one in a segment, all past retention but for the last one; and a client."""
    client = await node.client()
    await until_coordinated(client)
    configs = {"retention_bytes": 0, "retention_hold_groups": "g", **configs}
    await create_topic(client, segment_bytes=SEGMENT_BYTES, **configs)
    for _ in range(count):
        answer = await produce(client, "t", records(bytes(600_000), timestamp_ms=node.env.clock.wall_ms()))
        assert answer.error_code is ErrorCode.none
    return client


async def start_of(node):
    await asyncio.sleep(PASS_S)
    return node.log("t").log_start_offset


def holds_of(node):
    return node.node.broker.running.holds


@simulated(**CHECKS)
async def test_a_group_that_stands_still_keeps_its_records_and_a_commit_frees_them(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    assert await start_of(node) == 2
    assert holds_of(node).held_bytes[node.hosted("t")] > 2 * 600_000
    await commit(client, {("t", 0): 4})
    assert await start_of(node) == 4
    await commit(client, {("t", 0): 5})
    assert await start_of(node) == 5
    assert not holds_of(node).held_bytes
    assert not holds_of(node).breaks


@simulated(**CHECKS)
async def test_a_named_group_holds_before_its_first_commit_also_without_coordinators(node):
    client = await node.client()
    await create_topic(client, segment_bytes=SEGMENT_BYTES, retention_bytes=0, retention_hold_groups="g")
    for _ in range(3):
        await produce(client, "t", records(bytes(600_000), timestamp_ms=node.env.clock.wall_ms()))
    assert await start_of(node) == 0
    await until_coordinated(client)
    assert await start_of(node) == 0
    await commit(client, {("t", 0): 1})
    assert await start_of(node) == 1


@simulated(**CHECKS)
async def test_the_slowest_group_of_a_pattern_holds_and_others_do_not(node):
    client = await held_topic(node, count=0, retention_hold_groups="etl-*")
    for _ in range(3):
        await produce(client, "t", records(bytes(600_000), timestamp_ms=node.env.clock.wall_ms()))
    for group, offset in (("etl-a", 3), ("etl-b", 1), ("other", 0)):
        await until_coordinated(client, group)
        await commit(client, {("t", 0): offset}, group=group)
    assert await start_of(node) == 1
    assert await delete_groups(client, "etl-b") == {"etl-b": ErrorCode.none}
    assert await start_of(node) == 3


async def share_scene(node, name="g"):
    """A held topic, and a client and the states of share group ``g``, which has begun it without members that stay."""
    offered = offer(node, MemoryStates())
    client = await held_topic(node, retention_hold_groups=name)
    assert await start_of(node) == (0 if name == "g" else 5)
    await offered.client.beat()
    await asyncio.sleep(0.1)
    await offered.client.beat(epoch=-1)
    return client, offered.client, offered.states


async def put(sharer, offset):
    assert errors(await sharer.alter({("t", 0): offset})) == {("t", 0): ErrorCode.none}


@simulated(**CHECKS, **SETTINGS)
async def test_a_share_group_holds_from_its_start_offset_until_it_is_deleted(node):
    client, sharer, _ = await share_scene(node)
    assert await start_of(node) == 0, "where it begins is found by its first read"
    await put(sharer, 2)
    assert await start_of(node) == 2
    await put(sharer, 4)
    await put(sharer, 3)
    assert await start_of(node) == 3, "it has gone back"
    await delete_groups(client, "g")
    assert await start_of(node) == 5


@simulated(**CHECKS, **SETTINGS)
async def test_a_share_coordinator_that_does_not_answer_frees_nothing(node):
    _client, sharer, states = await share_scene(node)
    await put(sharer, 4)
    states.refusal = ErrorCode.coordinator_not_available
    assert await start_of(node) == 0
    states.refusal = None
    assert await start_of(node) == 4


@simulated(**CHECKS, **SETTINGS)
async def test_a_pattern_means_share_groups_that_have_begun_the_partition(node):
    client, sharer, _ = await share_scene(node, "*")
    for _ in range(3):
        await produce(client, "t", records(bytes(600_000), timestamp_ms=node.env.clock.wall_ms()))
    assert await start_of(node) == 5
    await put(sharer, 7)
    assert await start_of(node) == 7


@simulated(**CHECKS)
async def test_a_group_that_is_deleted_holds_nothing_more(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    await delete_groups(client, "g")
    assert await start_of(node) == 5


@simulated(**CHECKS)
async def test_an_offset_that_is_deleted_holds_nothing_more(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    await delete_offsets(client, [("t", 0)])
    assert await start_of(node) == 5


@simulated(**CHECKS)
async def test_a_commit_that_goes_back_holds_what_is_there(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    await commit(client, {("t", 0): 4})
    await commit(client, {("t", 0): 1})
    assert await start_of(node) == 2


@pytest.mark.parametrize(
    ("configs", "cap"),
    [({"retention_hold_max_bytes": SEGMENT_BYTES}, CAP_BYTES), ({"retention_hold_max_ms": 60_000}, CAP_MS)],
)
def test_a_cap_breaks_a_hold_and_the_log_says_what_was_lost(configs, cap, caplog):
    @simulated(**CHECKS)
    async def scenario(node):
        client = await held_topic(node, **configs)
        await commit(client, {("t", 0): 2})
        if cap is CAP_MS:
            assert await start_of(node) == 2
            await asyncio.sleep(61)
        end = await start_of(node)
        assert end == (3 if cap is CAP_BYTES else 5)
        text = f"t-0: the hold of group g is broken by {cap}: offsets 2 to {end - 1} are deleted and were not read"
        assert caplog.text.count(text) == 1
        assert holds_of(node).breaks == {cap: 1}
        assert holds_of(node).lost_offsets == {cap: end - 2}

    scenario()


def test_the_name_of_a_group_forges_no_line_of_the_log(caplog):
    holds = RetentionHolds(lambda: pytest.fail("nobody is asked"))
    holds.on_broken(TopicPartition("t", 0), [GroupHold("g\nWARNING all is well", 2)], [BrokenHold(CAP_BYTES, 0, 4)])
    (message,) = caplog.messages
    assert "\n" not in message
    assert r"the hold of group 'g\nWARNING all is well' is broken" in message


async def delete_records(client, offset):
    types = model(ApiKey.DELETE_RECORDS, 2)
    partition = types.DeleteRecordsPartition(partition_index=0, offset=offset)
    request = types.Request(topics=(types.DeleteRecordsTopic(name="t", partitions=(partition,)),), timeout=ms(30_000))
    (topic,) = (await client.call(ApiKey.DELETE_RECORDS, 2, request)).topics
    return topic.partitions[0].error_code


@pytest.mark.parametrize(("offset", "end"), [(4, 4), (-1, 5)])
def test_records_that_are_deleted_break_a_hold(offset, end, caplog):
    @simulated(**CHECKS)
    async def scenario(node):
        client = await held_topic(node)
        await commit(client, {("t", 0): 2})
        assert await delete_records(client, 2) is ErrorCode.none
        assert await delete_records(client, 9) is ErrorCode.offset_out_of_range
        assert not holds_of(node).breaks, "what is read, and what stays, is no loss"
        assert await delete_records(client, offset) is ErrorCode.none
        text = (
            f"t-0: the hold of group g is broken by DeleteRecords: offsets 2 to {end - 1} are deleted and were not read"
        )
        assert caplog.text.count(text) == 1
        assert await delete_records(client, offset) is ErrorCode.none
        assert holds_of(node).breaks == {DELETE_RECORDS: 1}
        assert holds_of(node).lost_offsets == {DELETE_RECORDS: end - 2}

    scenario()


@pytest.mark.parametrize("asked", ["name", "id", "version 5"])
@pytest.mark.parametrize("trash_ms", [0, 3_600_000])
def test_a_topic_that_is_deleted_breaks_the_holds_of_its_groups(asked, trash_ms, caplog):
    @simulated(**CHECKS)
    async def scenario(node):
        client = await held_topic(node, retention_hold_groups="g,h,etl-*", topic_trash_retention_ms=trash_ms)
        await commit(client, {("t", 0): 3})
        topic_id = node.metadata.image.topics_by_name["t"].topic_id
        answer = await delete_topic(
            client, topic_id if asked == "id" else "t", version=5 if asked == "version 5" else 6
        )
        assert answer.error_code is ErrorCode.none
        for group, start in (("g", 3), ("h", 0)):
            text = f"t-0: the hold of group {group} is broken by DeleteTopics: offsets {start} to 4 are deleted and were not read"
            assert caplog.text.count(text) == 1
        assert holds_of(node).breaks == {DELETE_TOPICS: 2}
        assert holds_of(node).lost_offsets == {DELETE_TOPICS: 2 + 5}

    scenario()


@simulated(**CHECKS)
async def test_a_topic_that_is_read_to_its_end_or_stays_breaks_no_hold(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 5})
    assert (await delete_topic(client, "u")).error_code is ErrorCode.unknown_topic_or_partition
    assert (await delete_topic(client, "t")).error_code is ErrorCode.none
    assert not holds_of(node).breaks


@simulated(**CHECKS)
async def test_a_group_that_was_deleted_loses_nothing_by_a_deletion(node):
    client = await held_topic(node, retention_hold_max_bytes=10 * SEGMENT_BYTES)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    await delete_groups(client, "g")
    assert await delete_records(client, 4) is ErrorCode.none
    assert not holds_of(node).breaks


@simulated(**CHECKS, **SETTINGS)
async def test_a_share_group_loses_what_is_deleted_from_its_start_offset_on(node):
    client, sharer, _ = await share_scene(node)
    await put(sharer, 2)
    assert await delete_records(client, 4) is ErrorCode.none
    assert holds_of(node).lost_offsets == {DELETE_RECORDS: 2}
    await put(sharer, 4)
    assert (await delete_topic(client, "t")).error_code is ErrorCode.none
    assert holds_of(node).lost_offsets == {DELETE_RECORDS: 2, DELETE_TOPICS: 1}


def test_a_coordinator_that_does_not_answer_holds_up_no_deletion(caplog):
    @simulated(**CHECKS, **SETTINGS)
    async def scenario(node):
        client, sharer, states = await share_scene(node)
        await put(sharer, 4)
        states.refusal = ErrorCode.coordinator_not_available
        began = asyncio.get_running_loop().time()
        assert await delete_records(client, 3) is ErrorCode.none
        assert asyncio.get_running_loop().time() - began < 3
        assert "the hold of group (not known) is broken by DeleteRecords: offsets 0 to 2 are deleted" in caplog.text

    scenario()


@pytest.mark.parametrize("configs", [{"retention_hold_max_bytes": 0}, {"retention_hold_max_ms": 0}])
def test_a_cap_of_0_holds_nothing(configs):
    @simulated(**CHECKS)
    async def scenario(node):
        await held_topic(node, **configs)
        assert await start_of(node) == 5

    scenario()


@simulated(**CHECKS)
async def test_a_topic_without_holds_asks_for_nothing(node):
    client = await held_topic(node, retention_hold_groups="")
    assert await start_of(node) == 5
    await delete_records(client, -1)
    await delete_topic(client, "t")
    assert holds_of(node)._questions is None


@simulated(**CHECKS)
async def test_a_hold_that_nothing_is_due_for_asks_for_nothing(node):
    await held_topic(node, retention_bytes=-1)
    assert await start_of(node) == 0
    assert holds_of(node)._questions is None


@simulated(**CHECKS)
async def test_holds_come_and_go_with_the_setting(node):
    client = await held_topic(node)
    assert await start_of(node) == 0
    await commit(client, {("t", 0): 2})
    await alter(client, (TOPIC, "t", ("retention.hold.groups", SET, "g,h")))
    assert await start_of(node) == 0
    await alter(client, (TOPIC, "t", ("retention.hold.groups", DELETE, None)))
    assert await start_of(node) == 5


@simulated(**CHECKS)
async def test_a_node_that_starts_again_holds_what_it_held(node):
    client = await held_topic(node)
    await commit(client, {("t", 0): 2})
    assert await start_of(node) == 2
    await node.restart()
    assert await start_of(node) == 2
    client = await node.client()
    await until_coordinated(client)
    await commit(client, {("t", 0): 5})
    assert await start_of(node) == 5


@simulated(**CHECKS)
async def test_everything_is_held_while_the_quorum_has_no_leader_to_ask(node, monkeypatch):
    client = await held_topic(node)
    await commit(client, {("t", 0): 5})
    channel = node.node.broker.dispatcher._services.controller
    monkeypatch.setattr(type(channel), "_attempt", nothing)
    assert await start_of(node) == 0
    await asyncio.sleep(10)
    assert node.log("t").log_start_offset == 0
    monkeypatch.undo()
    await asyncio.sleep(10)
    assert node.log("t").log_start_offset == 5


async def nothing(*_args):
    return None


@simulated(**CHECKS)
async def test_the_settings_are_checked(node):
    client = await node.client()
    for name, value in (
        ("retention_hold_groups", "a,,b"),
        ("retention_hold_max_ms", -2),
        ("retention_hold_max_bytes", "many"),
    ):
        (answer,) = await create_topics(client, [("t", 1, {name: value})])
        assert answer.error_code is ErrorCode.invalid_config, name
        assert name.replace("_", ".") in answer.error_message
    await create_topic(client, retention_hold_groups="a, b-*")
    told = await describe(client, TOPIC, "t")
    assert told["retention.hold.groups"][0] == "a, b-*"
    assert "retention.hold.max.ms" not in told, "Kafka's tools see settings of ours where they are set"
