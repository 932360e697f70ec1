"""Compaction beside everything else that a node does with its logs."""

import asyncio

import pytest

from esp.broker.replication.cleaner import limits_of
from esp.model.errors import ErrorCode
from esp.records.batch import iterate_records
from esp.records.batch_header import find_end_offset, read_header
from esp.records.builder import NewRecord, build_batch
from esp.settings.broker import BrokerSettings
from esp.storage.compaction.round import CleanerLimits, CleaningRound
from tests.unit.broker.config_requests import SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic, delete_topic, fetch, produce
from tests.unit.broker.simulated_node import simulated

COMPACTED = {"cleanup_policy": "compact", "segment_bytes": 1024 * 1024, "min_cleanable_dirty_ratio": 0.01}
VALUE = bytes(300_000)


def batch(*keys, value=VALUE):
    return build_batch([NewRecord(value, key) for key in keys], timestamp_ms=1_795_000_000_000)


async def fill(client, batches=12, keys=2):
    for number in range(batches):
        answer = await produce(client, "t", batch(b"key %d" % (number % keys)))
        assert answer.error_code is ErrorCode.none


async def until(holds):
    """Wait for something to become true, in simulated time."""
    for _ in range(10_000):
        if holds():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it does not become true")


def keys_of(data):
    left, found = memoryview(bytes(data)), []
    while left:
        header = read_header(left)
        found += [(record.offset, record.key) for record in iterate_records(left[: header.size])]
        left = left[header.size :]
    return found


def test_the_memory_of_the_settings_is_divided_among_the_threads():
    settings = BrokerSettings(
        log_cleaner_dedupe_buffer_size=100_000_000, log_cleaner_io_buffer_size=400_000, log_cleaner_threads=2
    )
    assert limits_of(settings) == CleanerLimits(map_bytes=45_000_000, chunk_bytes=100_000)
    assert limits_of(BrokerSettings(log_cleaner_threads=0)).map_bytes == int(134_217_728 * 0.9)


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_is_compacted_and_read_on(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    log = node.log("t")
    await until(lambda: log.cleaned_to == log.sealed_end_offset > 0)
    offset, found = 0, []
    while offset < 12:
        data = bytes((await fetch(client, "t", offset)).records)
        found += keys_of(data)
        offset = find_end_offset(data)
    assert {key: at for at, key in found} == {b"key 0": 10, b"key 1": 11}
    assert len(found) < 8
    assert log.size < 8 * len(VALUE)
    await node.stop()
    await node.start()
    assert node.log("t").cleaned_to == log.cleaned_to
    assert node.log("t").log_end_offset == 12


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_that_is_deleted_is_compacted_no_more(node):
    client = await node.client()
    for _ in range(3):
        await create_topic(client, **COMPACTED)
        await fill(client)
        await delete_topic(client, "t")
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").cleaned_to > 0)


@simulated(log_cleaner_backoff_ms=100)
async def test_a_topic_whose_policy_is_changed_is_compacted_from_then_on_and_no_longer(node):
    client = await node.client()
    await create_topic(client, **{**COMPACTED, "cleanup_policy": "delete"})
    await fill(client)
    log = node.log("t")
    await asyncio.sleep(5)
    assert log.cleaned_to == 0
    await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "compact")))
    await until(lambda: log.cleaned_to > 0)
    await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "delete")))
    cleaned_to = log.cleaned_to
    await fill(client)
    await asyncio.sleep(5)
    assert log.cleaned_to == cleaned_to


@simulated(log_cleaner_backoff_ms=100, log_cleaner_enable=False)
async def test_nothing_is_compacted_where_that_is_switched_off(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await asyncio.sleep(10)
    assert node.log("t").cleaned_to == 0


@simulated(log_cleaner_backoff_ms=1000)
async def test_a_round_begins_when_the_names_of_the_log_are_on_the_device(node):
    """The process before may have died before the sync of names that it gave (CLEAN-7)."""
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").recovery_point == node.log("t").log_end_offset)
    await node.restart()
    log = node.log("t")
    assert not log.names_are_durable
    begun = []
    indexing_blocking = CleaningRound.indexing_blocking

    def watch(cleaning):
        begun.append((cleaning.log, cleaning.log.names_are_durable))
        return indexing_blocking(cleaning)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CleaningRound, "indexing_blocking", watch)
        await until(lambda: begun)
    assert begun[0] == (log, True)


@simulated(log_cleaner_backoff_ms=1000)
async def test_a_round_that_cannot_sync_the_names_takes_the_directory_offline(node):
    client = await node.client()
    await create_topic(client, **COMPACTED)
    await fill(client)
    await until(lambda: node.log("t").recovery_point == node.log("t").log_end_offset)
    await node.restart()
    log = node.log("t")
    node.disk.fail("sync", log.path)
    await until(lambda: log.is_offline)
    assert log.cleaned_to == 0
