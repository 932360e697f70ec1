"""Replicas come, change and go as the metadata says; flushes commit where the topic's settings want that. Through a whole node."""

import asyncio
from dataclasses import replace

import pytest

from esp.controller.image import ClusterDelta
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.simulation.machine.loop import ProcessEndedError
from tests.unit.broker.conversation import (
    create_topic,
    delete_topic,
    fetch,
    list_offset,
    of_one_partition,
    produce,
    produce_later,
)
from tests.unit.broker.simulated_node import RefusedError, records, simulated, values

SEGMENT = "/data/t-0/00000000000000000000.log"


@simulated()
async def test_a_topic_is_served_as_soon_as_its_creation_is_answered(node):
    client = await node.client()
    topic_id = await create_topic(client, partitions=3)
    for partition in range(3):
        assert (await produce(client, "t", records(b"x"), partition=partition)).error_code is ErrorCode.none
    assert node.replicas.by_topic["t"] is node.replicas.by_topic_id[topic_id.bytes]
    assert [hosted.name for hosted in node.replicas] == [TopicPartition("t", number) for number in range(3)]
    assert node.replicas.find("t", 3) is None
    assert node.replicas.find("u", 0) is None


@simulated()
async def test_a_deleted_topic_is_put_aside_at_once_and_removed_after_its_delay(node):
    client = await node.client()
    await create_topic(client, file_delete_delay_ms=60_000)
    await produce(client, "t", records(b"x"))
    await delete_topic(client, "t")
    assert node.hosted("t") is None
    assert not node.replicas.by_topic_id
    assert [name for name in node.names() if name.startswith("t-0")] == [
        name for name in node.names() if name.endswith("-delete")
    ]
    await asyncio.sleep(50)
    assert any(name.endswith("-delete") for name in node.names())
    await asyncio.sleep(20)
    assert not any(name.endswith("-delete") for name in node.names())


@pytest.mark.parametrize("again", ["at once", "after a kill", "after a stop"])
def test_a_topic_of_the_same_name_begins_empty(again):
    @simulated()
    async def scenario(node):
        client = await node.client()
        old_id = await create_topic(client)
        for _ in range(3):
            await produce(client, "t", records(b"old"))
        await node.replicas.flush(node.hosted("t"))
        await asyncio.sleep(10)  # the checkpoints know the old log by now
        await delete_topic(client, "t")
        if again == "after a kill":
            await node.restart()
        elif again == "after a stop":
            await node.stop()
            await node.start()
        client = await node.client()
        new_id = await create_topic(client)
        assert new_id != old_id
        assert (await list_offset(client, "t", -1)).offset == 0
        assert (await produce(client, "t", records(b"new"))).base_offset == 0
        await node.restart()
        client = await node.client()
        assert values((await fetch(client, "t")).records) == [b"new"]
        assert (await fetch(client, old_id, version=13)).error_code is ErrorCode.unknown_topic_id

    scenario()


@simulated()
async def test_a_replica_that_the_metadata_does_not_know_is_put_aside_and_never_adopted(node):
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"x"))
    await node.stop()
    node.disk.make_directory("/data/u-0")
    node.disk.write_file("/data/u-0/partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAew")
    node.disk.write_file("/data/u-0/00000000000000000000.log", node.disk.read_file(SEGMENT))
    node.disk.make_directory("/data/v-0")  # a creation that was cut off
    await node.start()
    assert any(name.startswith("u-0.") and name.endswith("-stray") for name in node.names())
    assert not any(name.startswith("v-0.") for name in node.names())
    client = await node.client()
    for topic in "uv":
        await create_topic(client, topic)
        assert (await list_offset(client, topic, -1)).offset == 0
    assert values((await fetch(client, "t")).records) == [b"x"]


def test_rot_that_is_found_while_a_log_is_opened_is_told(caplog):
    @simulated()
    async def scenario(node):
        client = await node.client()
        await create_topic(client)
        for _ in range(3):
            await produce(client, "t", records(b"x"))
        await node.replicas.flush(node.hosted("t"))
        await asyncio.sleep(70)  # the checkpoints know what is flushed
        node.disk.corrupt(SEGMENT, node.disk.stat(SEGMENT).size // 3 + 45)
        await node.restart()
        await asyncio.sleep(1)
        assert "is the only in-sync replica, and it is corrupt" in caplog.text

    scenario()


@simulated()
async def test_new_replicas_go_to_the_directory_with_the_fewest(node):
    await node.stop()
    await node.start(log_dirs=("/data", "/more", "/others"))
    client = await node.client()
    await create_topic(client, partitions=5)
    counts = [
        len([name for name in node.names(path) if name.startswith("t-")]) for path in ("/data", "/more", "/others")
    ]
    assert sorted(counts) == [1, 2, 2]
    for partition in range(5):
        await produce(client, "t", records(b"%d" % partition), partition=partition)
    await node.restart()
    client = await node.client()
    for partition in range(5):
        assert values((await fetch(client, "t", partition=partition)).records) == [b"%d" % partition]


@simulated()
async def test_each_start_leads_with_a_new_epoch_that_batches_carry(node):
    epochs = []
    client = await node.client()
    await create_topic(client)
    for _ in range(3):
        client = await node.client()
        await produce(client, "t", records(b"x"))
        epochs.append(node.hosted("t").leader.leader_epoch)
        await node.restart()
    assert epochs == sorted(set(epochs))
    log = node.log("t")
    assert [log.leader_epochs.epoch_of(offset) for offset in range(3)] == epochs


@simulated()
async def test_new_settings_reach_the_log_and_wake_who_waits(node):
    client = await node.client()
    topic_id = await create_topic(client, flush_messages=1)
    hosted = node.hosted("t")
    node.disk.wait = never
    waiting = produce_later(client, "t", records(b"x"))
    await asyncio.sleep(1)
    assert not waiting.done()
    image = node.metadata.image
    changed_topic = replace(image.topics_by_id[topic_id], configs={"retention.ms": "7"})
    changed = replace(image, topics_by_id={topic_id: changed_topic}, topics_by_name={"t": changed_topic})
    delta = ClusterDelta(changed_topic_configs=frozenset([topic_id]))
    await node.replicas.apply(changed, delta, lambda _image: None)
    assert hosted.log.settings.retention_ms == 7
    assert of_one_partition(await waiting).error_code is ErrorCode.none, "nothing has to be flushed any more"


async def never(_operation, _size):
    await asyncio.get_running_loop().create_future()


# flushing ----------------------------------------------------------------------------------------------------------------------------


@simulated()
async def test_with_flush_messages_1_only_what_is_on_the_device_is_acknowledged(node):
    client = await node.client()
    await create_topic(client, flush_messages=1)
    for number in range(5):
        answer = await produce(client, "t", records(b"%d" % number))
        assert answer.base_offset == number
        assert node.log("t").recovery_point == number + 1
        assert not node.disk.unsynced_bytes(SEGMENT)
        node.kill(power=True)
        await node.start()
        client = await node.client()
        assert len(values((await fetch(client, "t")).records)) == number + 1


@simulated()
async def test_without_a_flush_nothing_waits_for_the_device(node):
    client = await node.client()
    await create_topic(client)
    node.disk.wait = never
    assert (await produce(client, "t", records(b"x"))).error_code is ErrorCode.none
    assert node.disk.unsynced_bytes(SEGMENT)


@simulated()
async def test_one_flush_serves_all_that_was_appended_before_it(node):
    client = await node.client()
    await create_topic(client, flush_messages=1)
    syncs = []
    plain = node.disk.wait

    async def counted(operation, size):
        syncs.append(operation)
        await plain(operation, size)

    await produce(client, "t", records(b"x"))
    node.disk.wait = counted
    answers = [produce_later(client, "t", records(b"x")) for _ in range(20)]
    for number, answer in enumerate(answers, start=1):
        assert of_one_partition(await answer).base_offset == number
    assert 1 <= syncs.count("sync") <= 5


@simulated()
async def test_acks_1_does_not_wait_for_the_flush_and_its_records_are_read_only_after_it(node):
    client = await node.client()
    await create_topic(client, flush_messages=1)
    plain, node.disk.wait = node.disk.wait, never
    assert (await produce(client, "t", records(b"x"), acks=1)).error_code is ErrorCode.none
    assert (await fetch(client, "t")).high_watermark == 0
    assert (await list_offset(client, "t", -1)).offset == 0
    assert (await list_offset(client, "t", -1, replica_id=2)).offset == 1, "a follower is told of the log end"
    assert (await list_offset(client, "t", -3)).offset == -1
    assert plain is not never


@simulated()
async def test_a_flush_in_time_is_awaited_and_one_that_is_late_is_answered_with_a_timeout(node):
    client = await node.client()
    await create_topic(client, flush_messages=1)
    release = asyncio.get_running_loop().create_future()

    async def slow(_operation, _size):
        await asyncio.shield(release)

    node.disk.wait = slow
    waiting = produce_later(client, "t", records(b"x"), timeout_ms=500)
    before = node.loop.time()
    assert of_one_partition(await waiting).error_code is ErrorCode.request_timed_out
    assert 0.5 <= node.loop.time() - before < 0.51
    retried = produce_later(client, "t", records(b"y"), timeout_ms=5000)
    await asyncio.sleep(0.1)
    release.set_result(None)
    assert of_one_partition(await retried).base_offset == 1


@simulated()
async def test_flush_messages_counts_records_and_does_not_hold_back_the_high_watermark(node):
    client = await node.client()
    await create_topic(client, flush_messages=3)
    for number in range(3):
        assert node.log("t").recovery_point == 0
        await produce(client, "t", records(b"x"))
        assert node.log("t").high_watermark == number + 1
    await asyncio.sleep(0.1)
    assert node.log("t").recovery_point == 3


@simulated()
async def test_flush_ms_flushes_what_has_waited_for_so_long(node):
    client = await node.client()
    await create_topic(client, flush_ms=5000)
    await asyncio.sleep(10)
    await produce(client, "t", records(b"x"))
    await asyncio.sleep(4)
    assert node.log("t").recovery_point == 0
    await asyncio.sleep(3)
    assert node.log("t").recovery_point == 1


@simulated()
async def test_a_device_that_cannot_flush_ends_the_node(node):
    client = await node.client()
    await create_topic(client, flush_messages=1)
    node.disk.fail("sync", "*/t-0/*")
    with pytest.raises(RefusedError):
        await produce(client, "t", records(b"x"))
    assert not node.process.alive
    assert "/data/t-0 cannot be flushed" in node.process.end_reason
    with pytest.raises(ProcessEndedError):
        await node.stop()


@pytest.mark.parametrize("pause_us", range(0, 8000, 500))
def test_a_topic_may_be_deleted_and_created_again_while_it_is_flushed(pause_us):
    @simulated(seed=pause_us)
    async def scenario(node):
        producer, admin = await node.client(), await node.client()
        await create_topic(admin, flush_messages=1)
        for turn in range(3):
            waiting = [produce_later(producer, "t", records(b"%d %d" % (turn, number))) for number in range(3)]
            await asyncio.sleep(pause_us / 1e6)
            await delete_topic(admin, "t")
            await create_topic(admin, flush_messages=1)
            for answer in waiting:
                assert of_one_partition(await answer).error_code in (0, 3, 6)
        count = (await list_offset(admin, "t", -1)).offset
        assert (await produce(admin, "t", records(b"last"))).base_offset == count
        await node.restart()
        client = await node.client()
        found = values((await fetch(client, "t")).records)
        assert len(found) == count + 1
        assert all(value.startswith(b"2 ") for value in found[:-1])

    scenario()


@simulated()
async def test_a_full_disk_refuses_appends_and_ends_when_there_is_room_again(node):
    client = await node.client()
    await create_topic(client)
    await produce(client, "t", records(b"a"))
    node.disk.fill_up(50)
    for _ in range(3):
        assert (await produce(client, "t", records(b"b" * 1000))).error_code is ErrorCode.kafka_storage_error
    assert values((await fetch(client, "t")).records) == [b"a"]
    node.disk.heal()
    assert (await produce(client, "t", records(b"c"))).base_offset == 1
    await node.restart()
    assert values((await fetch(await node.client(), "t")).records) == [b"a", b"c"]


@simulated()
async def test_a_replica_that_cannot_be_made_ends_nobody_else_and_is_served_after_the_next_start(node):
    client = await node.client()
    await create_topic(client, "good")
    node.disk.fail("create", "*/bad-0/*", times=10**6)
    await create_topic(client, "bad")
    refused = await produce(client, "bad", records(b"x"))
    assert refused.error_code == ErrorCode.not_leader_or_follower
    assert (await produce(client, "good", records(b"x"))).error_code == 0
    await delete_topic(client, "bad")
    await create_topic(client, "bad")
    node.disk.heal()
    await node.stop()
    await node.start()
    client = await node.client()
    assert (await produce(client, "bad", records(b"x"))).error_code == 0
    assert values((await fetch(client, "good")).records) == [b"x"]
