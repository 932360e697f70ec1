"""Topics in the trash, through a whole node: deleted topics that can be restored, under their id, with records, settings and offsets."""

import asyncio
import errno
from dataclasses import replace

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID
from esp.protocol.registry import ApiKey
from esp.protocol.trash import (
    PURGE,
    RESTORE,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from esp.storage.trashed_replicas import TRASH_FILE
from tests.unit.broker.config_requests import SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic, delete_topic, fetch, list_offset, metadata, ms, produce
from tests.unit.broker.group_conversation import commit, fetch_offsets, until_coordinated
from tests.unit.broker.share_group_conversation import SETTINGS, assigned, by_partition, errors, scene
from tests.unit.broker.simulated_node import records, simulated, values
from tests.unit.broker.transaction_conversation import ID, add, describe, end, init, until_state, with_transactions
from tests.unit.broker.transactional_client import batch

HOUR_MS = 3_600_000
TRASH = {"topic_trash_retention_ms": str(HOUR_MS)}


async def change_trash(client, action, topic_id, *, is_forced=False):
    request = AlterPartitionReassignmentsRequest(
        timeout=ms(1000), topics=(), trash_action=action, trash_topic_id=topic_id, is_forced=is_forced
    )
    return await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request)


async def restore(client, topic_id, **options):
    return await change_trash(client, RESTORE, topic_id, **options)


async def purge(client, topic_id):
    return await change_trash(client, PURGE, topic_id)


async def trash(client):
    request = ListPartitionReassignmentsRequest(timeout=ms(1000), topics=(), with_trash=True)
    answer = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request)
    return answer.trash


def id_of(node, topic="t"):
    return node.metadata.image.topics_by_name[topic].topic_id


def kept(node):
    """The directories of the topic's partition, whatever they are called."""
    return [name for name in node.names() if name.startswith("t-0")]


async def until_known(node, condition):
    """Wait until the controller has committed it; the broker may not have applied it."""
    metadata = node.node.broker.running._node.metadata
    while not condition(metadata.image):  # noqa: ASYNC110 - the broker's own metadata may be held up by the test
        await asyncio.sleep(0.01)


async def until_led(node, topic="t", partition=0):
    while (hosted := node.hosted(topic, partition)) is None or hosted.leader is None:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)


async def trashed(node, *, count=3, **configs):
    """A topic with ``count`` records that is in the trash; its client and its id."""
    client = await node.client()
    await create_topic(client, **TRASH, **configs)
    for number in range(count):
        assert (await produce(client, "t", records(b"%d" % number))).error_code is ErrorCode.none
    topic_id = id_of(node)
    await delete_topic(client, "t")
    return client, topic_id


async def all_values(client, topic="t", partition=0):
    return values((await fetch(client, topic, 0, partition)).records)


@simulated()
async def test_a_topic_is_restored_under_its_id_with_records_and_settings(node):
    client, topic_id = await trashed(node, retention_bytes="12345678")
    [unknown] = (await metadata(client, ["t"])).topics
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    assert (await fetch(client, "t", 0)).error_code is ErrorCode.unknown_topic_or_partition
    [entry] = await trash(client)
    assert (entry.name, entry.topic_id, entry.partitions) == ("t", topic_id, 1)
    assert entry.until_ms - entry.trashed_ms == HOUR_MS
    answer = await restore(client, topic_id)
    assert (answer.error_code, answer.trash_topic, answer.offline) == (ErrorCode.none, "t", ())
    await until_led(node)
    assert await trash(client) == ()
    assert id_of(node) == topic_id
    assert node.metadata.image.topics_by_id[topic_id].configs["retention.bytes"] == "12345678"
    assert await all_values(client) == [b"0", b"1", b"2"]
    assert (await produce(client, "t", records(b"3"))).base_offset == 3
    latest = await list_offset(client, "t", -1)
    assert (latest.offset, latest.leader_epoch) == (4, node.hosted("t").state.leader_epoch)
    assert not node.disk.exists(f"/data/t-0/{TRASH_FILE}")


@simulated()
async def test_a_topic_whose_disk_is_full_comes_back_with_all_records_when_there_is_room(node):
    client, topic_id = await trashed(node)
    for operation in ("write", "create"):
        for pattern in ("*/t-0*", "*-checkpoint*"):
            node.disk.fail(operation, pattern, error=errno.ENOSPC, times=10**6)
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await asyncio.sleep(60)
    assert kept(node), "the log stays in the trash, and its restoration is tried again"
    assert (await fetch(client, "t", 0)).error_code is ErrorCode.not_leader_or_follower
    node.disk.heal()
    await until_led(node)
    assert await all_values(client) == [b"0", b"1", b"2"]
    assert (await produce(client, "t", records(b"3"))).base_offset == 3
    await node.restart()
    client = await node.client()
    await until_led(node)
    assert await all_values(client) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("after", range(5))
@pytest.mark.parametrize("operation", ["read", "write", "create", "rename", "remove", "sync"])
def test_one_error_of_the_device_while_a_log_is_restored_costs_no_record(operation, after, caplog):
    """TRASH-3: the log was in neither of two directories for the retry, counted as gone, and began again, empty."""

    @simulated(log_dirs=("/a", "/b"), metadata_log_dir="/meta")
    async def scenario(node):
        client, topic_id = await trashed(node)
        node.disk.fail(operation, "*/t-0*", after=after)
        assert (await restore(client, topic_id)).error_code is ErrorCode.none
        async with asyncio.timeout(60):
            await until_led(node)
        assert await all_values(client) == [b"0", b"1", b"2"]
        await node.restart(power=True)
        client = await node.client()
        await until_led(node)
        assert await all_values(client) == [b"0", b"1", b"2"]

    scenario()
    assert "gone" not in caplog.text


@simulated(**SETTINGS)
async def test_a_queue_goes_on_after_its_topic_was_restored(node):
    """Share states stay for what is in the trash, and are deleted with what is purged (SHARE-29)."""
    client = await node.client()
    queue, states = await scene(node)
    await alter(client, (TOPIC, "t", ("topic.trash.retention.ms", SET, str(HOUR_MS))))
    await queue.beat()
    await asyncio.sleep(0.1)
    await queue.beat(epoch=-1)
    assert set(errors(await queue.alter({("t", 0): 0, ("t", 1): 0})).values()) == {ErrorCode.none}
    for key, state in states.states.items():
        state.start_offset = 10 + key.partition
    topic_id = id_of(node)
    await delete_topic(client, "t")
    assert by_partition(await queue.offsets()) == {}
    assert states.numbers() == [0, 1]
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await until_led(node)
    described = by_partition(await queue.offsets(version=0))
    assert {number: one.start_offset for (_, number), one in described.items()} == {0: 10, 1: 11}
    assert assigned(await queue.beat()) == {topic_id: (0, 1)}
    await queue.beat(epoch=-1)
    await delete_topic(client, "t")
    await purge(client, topic_id)
    while states.numbers():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.1)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("end", ["stop", "kill", "power loss"])
@pytest.mark.parametrize("is_restored_before", [False, True])
def test_the_trash_survives_the_process_and_the_machine(end, count, is_restored_before):
    @simulated()
    async def scenario(node):
        client, topic_id = await trashed(node, count=count)
        await asyncio.sleep(1)  # the broker has applied the deletion
        if is_restored_before:
            restoring = asyncio.ensure_future(restore(client, topic_id))
            await node.metadata.until(lambda image: topic_id in image.topics_by_id)
            restoring.cancel()
        if end == "stop":
            await node.stop()
            await node.start()
        else:
            await node.restart(power=end == "power loss")
        client = await node.client()
        if not is_restored_before:
            assert [entry.topic_id for entry in await trash(client)] == [topic_id]
            assert (await restore(client, topic_id)).error_code is ErrorCode.none
        await until_led(node)
        assert await all_values(client) == [b"0", b"1", b"2"][:count]
        assert (await produce(client, "t", records(b"3"))).base_offset == count

    scenario()


@simulated()
async def test_a_topic_that_was_deleted_while_the_replicas_were_away_is_in_the_trash_at_the_start(node):
    client = await node.client()
    await create_topic(client, **TRASH)
    await produce(client, "t", records(b"0"))
    await node.replicas.flush(node.hosted("t"))
    topic_id = id_of(node)
    async with node.replicas.directories_lock:  # nothing is applied
        deletion = asyncio.ensure_future(delete_topic(client, "t"))
        await until_known(node, lambda image: topic_id in image.trashed_topics)
        node.kill()
    deletion.cancel()
    await node.start()
    client = await node.client()
    assert "t-0" not in node.names()
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await until_led(node)
    assert await all_values(client) == [b"0"]


@simulated()
async def test_another_topic_has_the_name_meanwhile(node):
    client, topic_id = await trashed(node)
    await create_topic(client, **TRASH)
    second = id_of(node)
    await produce(client, "t", records(b"other"))
    answer = await restore(client, topic_id)
    assert answer.error_code is ErrorCode.topic_already_exists
    assert "another topic named 't'" in answer.error_message
    await delete_topic(client, "t")
    assert [entry.topic_id for entry in await trash(client)] == [topic_id, second]
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await until_led(node)
    assert await all_values(client) == [b"0", b"1", b"2"]
    await delete_topic(client, "t")
    assert (await restore(client, second)).error_code is ErrorCode.none
    await until_led(node)
    assert await all_values(client) == [b"other"]


@simulated()
async def test_what_is_purged_is_gone_from_the_disk_and_cannot_be_restored(node):
    client, topic_id = await trashed(node)
    [name] = kept(node)
    assert name.endswith("-stray")
    assert (await purge(client, topic_id)).trash_topic == "t"
    for answer in (await restore(client, topic_id), await purge(client, topic_id), await restore(client, ZERO_UUID)):
        assert answer.error_code is ErrorCode.unknown_topic_id
        assert "not in the trash" in answer.error_message
        assert answer.trash_topic is None
    await asyncio.sleep(120)
    assert not kept(node)


@simulated(limit_s=2 * HOUR_MS)
async def test_time_purges_and_no_sooner(node):
    client, _ = await trashed(node)
    await asyncio.sleep(HOUR_MS / 1000 - 10)
    client = await node.client()
    assert len(await trash(client)) == 1
    await asyncio.sleep(12)
    client = await node.client()
    assert await trash(client) == ()


@simulated()
async def test_what_was_purged_while_the_node_was_killed_is_removed_at_the_start(node):
    client, topic_id = await trashed(node)
    async with node.replicas.directories_lock:
        purging = asyncio.ensure_future(purge(client, topic_id))
        await until_known(node, lambda image: topic_id not in image.trashed_topics)
        node.kill()
    purging.cancel()
    await node.start()
    await asyncio.sleep(120)
    assert not kept(node)


@simulated()
async def test_a_log_that_is_gone_from_the_trash_is_not_taken_for_a_complete_one(node):
    client, topic_id = await trashed(node)
    [name] = kept(node)
    node.disk.remove_tree(f"/data/{name}")
    for directory in node.replicas.directories.online:
        directory.trashed.by_key.clear()
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await until_led(node)  # no other replica has anything: as at a start, it begins again, empty
    assert await all_values(client) == []


@simulated()
async def test_a_log_of_an_earlier_deletion_is_not_taken_for_a_complete_one(node, caplog):
    """The directory with the last one is offline."""
    client, topic_id = await trashed(node)
    await restore(client, topic_id)
    await until_led(node)
    await delete_topic(client, "t")
    await node.metadata.until(lambda image: topic_id in image.trashed_topics)
    while not node.replicas.directories.online[0].trashed.by_key:  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)
    [directory] = node.replicas.directories.online
    [(key, last)] = directory.trashed.by_key.items()
    deleted = node.metadata.image.trashed_topics[topic_id].topic.partitions[0]
    assert last.leader_epoch == deleted.leader_epoch > 0
    directory.trashed.by_key[key] = replace(last, leader_epoch=0)
    assert (await restore(client, topic_id)).error_code is ErrorCode.none
    await until_led(node)  # no other replica has anything
    assert "the log of t-0 is gone" in caplog.text
    assert await all_values(client) == [b"0", b"1", b"2"]


@simulated(topic_trash_retention_ms=0)
async def test_without_a_time_in_the_trash_topics_are_gone(node):
    client = await node.client()
    await create_topic(client)
    await delete_topic(client, "t")
    assert await trash(client) == ()
    assert not [name for name in node.names() if name.endswith("-stray")]


@simulated(topic_trash_retention_ms=1000)
async def test_the_node_s_own_setting_counts_for_topics_without_one(node):
    client = await node.client()
    await create_topic(client)
    await create_topic(client, "u", topic_trash_retention_ms="0")
    await delete_topic(client, "t")
    await delete_topic(client, "u")
    assert [entry.name for entry in await trash(client)] == ["t"]


@simulated()
async def test_committed_offsets_are_hidden_and_come_back(node):
    client = await node.client()
    await until_coordinated(client)
    await create_topic(client, "other")
    await create_topic(client, **TRASH)
    await produce(client, "t", records(b"0", b"1"))
    topic_id = id_of(node)
    assert await commit(client, {("t", 0): 2, ("other", 0): 7}) == {
        ("t", 0): ErrorCode.none,
        ("other", 0): ErrorCode.none,
    }
    await delete_topic(client, "t")
    wanted = [("t", 0), ("other", 0)]
    assert await fetch_offsets(client, wanted) == {("t", 0): -1, ("other", 0): 7}
    await restore(client, topic_id)
    assert await fetch_offsets(client, wanted) == {("t", 0): 2, ("other", 0): 7}
    await delete_topic(client, "t")
    await purge(client, topic_id)
    await create_topic(client)
    assert await fetch_offsets(client, wanted) == {("t", 0): -1, ("other", 0): 7}


@simulated()
async def test_a_new_topic_of_the_name_does_not_get_the_offsets(node):
    client = await node.client()
    await until_coordinated(client)
    await create_topic(client, **TRASH)
    await commit(client, {("t", 0): 2})
    await delete_topic(client, "t")
    await create_topic(client)
    await asyncio.sleep(1)
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): -1}
    await commit(client, {("t", 0): 1})
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): 1}


@with_transactions()
async def test_a_transaction_that_was_open_is_aborted_everywhere(node, client):
    await create_topic(client, **TRASH)
    topic_id = id_of(node)
    producer = await init(client)
    identity = producer.producer_id, producer.producer_epoch
    await add(client, identity, {"t": [0]})
    sent = batch(0, b"open", epoch=producer.producer_epoch, producer_id=producer.producer_id)
    assert (await produce(client, "t", sent, transactional_id=ID)).error_code is ErrorCode.none
    await produce(client, "t", records(b"plain"))
    assert node.log("t").last_stable_offset == 0
    await delete_topic(client, "t")
    await until_state(client, "CompleteAbort")
    assert (await end(client, identity)).error_code is not ErrorCode.none
    await restore(client, topic_id)
    await until_led(node)
    assert node.log("t").last_stable_offset == node.log("t").log_end_offset == 3
    assert (await describe(client)).transaction_state == "CompleteAbort"
    await node.restart(power=True)
    await until_led(node)
    assert node.log("t").log_end_offset == 3
