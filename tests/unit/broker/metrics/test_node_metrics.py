"""What a whole node tells of itself."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from esp.broker.metrics.families import PARTITIONS_SHOWN
from esp.broker.replication.trash_guard import GUARD_INTERVAL_MS
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.records.builder import NewRecord, build_batch
from esp.settings.addresses import MetricsListener
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from tests.unit.broker import group_conversation
from tests.unit.broker.authentication.raw_client import WRONG, log_in, with_sasl
from tests.unit.broker.config_requests import SET, TOPIC, alter
from tests.unit.broker.conversation import create_topic, create_topics, delete_topic, fetch_later, produce
from tests.unit.broker.guarded_node import client_of
from tests.unit.broker.metrics.test_http_server import GET, Scraper
from tests.unit.broker.simulated_node import records, simulated
from tests.unit.broker.transaction_conversation import (
    ID,
    ask_as_broker,
    end,
    init,
    until_coordinated,
    until_state,
    with_transactions,
)
from tests.unit.broker.transactional_client import batch, commit_in, write_markers

METRICS = MetricsListener("127.0.0.1", 9308)
measured = simulated(metrics_listener=METRICS)


async def _scrape(node):
    """The samples by name, those with labels by name and label values."""
    scraper = await Scraper().open(node, Address("127.0.0.1", 9308))
    answer = await scraper.ask(GET)
    while not answer.endswith(b"\n"):  # something else keeps the node's threads busy
        await asyncio.sleep(0.1)
        answer += scraper.received
        scraper.received = b""
    scraper.connection.abort()
    _, _, body = answer.partition(b"\r\n\r\n")
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "le")): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.labels.get("le", "+Inf") == "+Inf"
    }


async def _until(node, holds):
    """The samples, as soon as they are as they should be."""
    for _ in range(1000):
        told = await _scrape(node)
        if holds(told):
            return told
        await asyncio.sleep(0.1)
    raise AssertionError("it is not told")


@measured
async def test_requests_are_counted_by_name_with_their_bytes(node):
    client = await node.client()
    await create_topic(client, "t")
    batch = records(b"x" * 1000)
    for _ in range(3):
        await produce(client, "t", batch)
    told = await _scrape(node)
    assert told["esp_request_duration_seconds_count", "broker", "Produce"] == 3
    assert told["esp_request_duration_seconds_count", "broker", "CreateTopics"] == 1
    assert 3 * len(batch) < told["esp_request_received_bytes_total", "broker", "Produce"] < 3 * len(batch) + 300
    assert told["esp_request_sent_bytes_total", "broker", "Produce"] > 60
    assert ("esp_request_duration_seconds_count", "broker", "Fetch") not in told


@measured
async def test_the_time_that_a_fetch_waits_is_part_of_its_duration(node):
    client = await node.client()
    await create_topic(client, "t")
    waiting = fetch_later(client, [("t", 0, 0, 1 << 20)], max_wait_ms=30_000, min_bytes=1)
    await asyncio.sleep(2)
    before = await _scrape(node)
    assert before.get(("esp_request_duration_seconds_count", "broker", "FetchConsumer"), 0) == 0
    await produce(await node.client(), "t", records(b"x"))
    await waiting
    after = await _scrape(node)
    assert after["esp_request_duration_seconds_count", "broker", "FetchConsumer"] == 1
    assert 2 <= after["esp_request_duration_seconds_sum", "broker", "FetchConsumer"] < 2.5


@measured
async def test_partitions_connections_and_the_cluster_are_told(node):
    client = await node.client()
    await create_topic(client, "t", partitions=3)
    await asyncio.sleep(1)
    told = await _scrape(node)
    assert told["esp_partitions_led",] == 3
    assert told["esp_partitions_followed",] == 0
    assert told["esp_under_replicated_partitions",] == 0
    assert told["esp_at_min_isr_partitions",] == 3
    assert told["esp_reassigning_partitions",] == 0
    assert told["esp_connections", "broker"] == 1
    assert told["esp_active_controller",] == 1
    assert told["esp_cluster_topics",] == 1
    assert told["esp_cluster_active_brokers",] == 1
    assert told["esp_metadata_committed_offset",] == node.node.running.raft.high_watermark
    assert told["esp_event_loop_delay_seconds_count",] > 0


@simulated(metrics_listener=METRICS, log_initial_task_delay_ms=1000, log_retention_check_interval_ms=1000)
async def test_held_bytes_and_broken_holds_are_counted(node):
    client = await node.client()
    caps = {"retention_hold_max_bytes": 1 << 20}
    await create_topic(client, segment_bytes=1 << 20, retention_bytes=0, retention_hold_groups="g", **caps)
    for _ in range(3):
        await produce(client, "t", build_batch([NewRecord(bytes(600_000))], timestamp_ms=node.env.clock.wall_ms()))
    await asyncio.sleep(3)
    told = await _scrape(node)
    assert told["esp_retention_held_bytes", "0", "t"] > 1_000_000
    assert told["esp_retention_hold_breaks_total", "retention.hold.max.bytes"] == 1
    assert told["esp_retention_hold_lost_offsets_total", "retention.hold.max.bytes"] == 1
    assert told["esp_retention_hold_breaks_total", "retention.hold.max.ms"] == 0


@simulated(metrics_listener=METRICS, log_cleaner_backoff_ms=100)
async def test_rounds_of_compaction_are_counted(node):
    client = await node.client()
    await create_topic(client, "t", cleanup_policy="compact", segment_bytes=1 << 20)
    assert (await _scrape(node))["esp_compaction_rounds_total",] == 0
    for _ in range(12):
        await produce(client, "t", build_batch([NewRecord(bytes(300_000), b"k")], timestamp_ms=1_795_000_000_000))
    told = await _until(node, lambda told: told["esp_compaction_rounds_total",])
    assert told["esp_compaction_rounds_total",] == 1
    assert told["esp_compaction_read_bytes_total",] > told["esp_compaction_written_bytes_total",] > 300_000
    assert told["esp_compaction_last_round_seconds",] > 0
    assert 0 < told["esp_compaction_map_utilization",] < 1
    assert 300_000 < told["esp_compaction_last_round_memory_bytes",] < 2_000_000
    assert told["esp_compaction_failures_total",] == told["esp_compaction_uncleanable_partitions",] == 0


@simulated(metrics_listener=METRICS, log_cleaner_backoff_ms=100)
async def test_the_dirtiest_log_is_told_also_before_a_round_is_due(node):
    client = await node.client()
    await create_topic(client, "t", cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio="1.0")
    assert (await _scrape(node))["esp_compaction_max_dirty_ratio",] == 0
    for _ in range(12):
        await produce(client, "t", build_batch([NewRecord(bytes(300_000), b"k")], timestamp_ms=1_795_000_000_000))
    told = await _until(node, lambda told: told["esp_compaction_max_dirty_ratio",])
    assert told["esp_compaction_max_dirty_ratio",] == 1
    assert told["esp_compaction_rounds_total",] == 0


async def _fill_and_flush(node, client):
    """Sealed segments on the device that are compacted as soon as :func:`_let_compact` says so."""
    await create_topic(client, "t", cleanup_policy="delete", segment_bytes=1 << 20)
    for _ in range(12):
        await produce(client, "t", build_batch([NewRecord(bytes(300_000), b"k")], timestamp_ms=1_795_000_000_000))
    await node.replicas.flush(node.hosted("t"))


async def _let_compact(client):
    assert await alter(client, (TOPIC, "t", ("cleanup.policy", SET, "compact"))) == [(ErrorCode.none, None)]


@simulated(metrics_listener=METRICS, log_cleaner_backoff_ms=100)
async def test_a_log_with_a_corrupt_batch_is_uncleanable_until_its_file_is_restored(node):
    client = await node.client()
    await _fill_and_flush(node, client)
    path = f"/data/t-0/{0:020d}.log"
    node.disk.corrupt(path, 1000)
    await _let_compact(client)
    told = await _until(node, lambda told: told["esp_compaction_uncleanable_partitions",])
    assert told["esp_compaction_uncleanable_partitions",] == 1
    await asyncio.sleep(5)
    told = await _scrape(node)
    assert told["esp_compaction_uncleanable_partitions",] == 1
    assert told["esp_compaction_rounds_total",] == told["esp_compaction_failures_total",] == 0, "nothing failed"
    node.disk.corrupt(path, 1000)
    await node.restart()
    told = await _until(node, lambda told: told["esp_compaction_rounds_total",])
    assert told["esp_compaction_uncleanable_partitions",] == 0


@simulated(metrics_listener=METRICS, log_cleaner_backoff_ms=100)
async def test_rounds_of_compaction_that_the_device_ends_are_counted(node):
    client = await node.client()
    await _fill_and_flush(node, client)
    node.disk.fail("write", "*.cleaned", times=2)
    await _let_compact(client)
    told = await _until(node, lambda told: told["esp_compaction_rounds_total",])
    assert told["esp_compaction_failures_total",] == 2
    assert told["esp_compaction_rounds_total",] == 1
    assert told["esp_compaction_uncleanable_partitions",] == 0, "its batches are sound"


@with_transactions(metrics_listener=METRICS)
async def test_partitions_of_coordinators_that_cannot_be_read_are_told(node, client):
    name, topic = "esp_unreadable_coordinator_partitions", "__transaction_state"
    topics = ("__consumer_offsets", "__share_group_state", topic)
    await init(client)
    told = await _scrape(node)
    assert [told[name, each] for each in topics] == [0, 0, 0]
    for number in range(2):
        path = f"/data/{topic}-{number}/{0:020d}.log"
        if node.disk.stat(path).size:
            node.disk.corrupt(path, 61 + 20)

    async def lead_again():
        for number in range(2):
            node.node.broker.running.transactions.on_leading(node.hosted(topic, number))

    await node.process.run(lead_again())
    await asyncio.sleep(1)
    told = await _scrape(node)
    assert [told[name, each] for each in topics] == [0, 0, 1]


async def _begin(client):
    """The producer id and epoch of ``ID``."""
    begun = await init(client)
    return begun.producer_id, begun.producer_epoch


async def _produce_in(client, producer, partition, timestamp_ms, *values):
    """Append a batch of a transaction of ``ID``."""
    opened = batch(0, *values, producer_id=producer[0], epoch=producer[1], timestamp_ms=timestamp_ms)
    answer = await produce(client, "t", opened, partition=partition, transactional_id=ID)
    assert answer.error_code is ErrorCode.none


@with_transactions(metrics_listener=METRICS)
async def test_open_transactions_are_told_by_partition(node, client):
    await create_topic(client, "t", partitions=3)
    quiet = await _scrape(node)
    producer = await _begin(client)
    await _produce_in(client, producer, 1, node.env.clock.wall_ms())
    for _ in range(4):
        await produce(client, "t", records(b"behind it"), partition=1)
    await asyncio.sleep(30)
    told = await _scrape(node)
    assert told["esp_partitions_with_open_transactions",] == 1
    assert told["esp_last_stable_offset_lag", "1", "t"] == 5
    assert 30 <= told["esp_open_transaction_idle_seconds", "1", "t"] < 31
    assert 30 <= told["esp_oldest_transaction_seconds",] < 31
    assert told["esp_partitions_with_late_transactions",] == 0
    assert ("esp_last_stable_offset_lag", "0", "t") not in told, "no transaction is open there"
    await end(client, producer)
    await until_state(client, "CompleteCommit")
    after = await _scrape(node)
    for name in (
        *("esp_partitions_with_open_transactions", "esp_partitions_with_late_transactions"),
        *("esp_oldest_transaction_seconds", "esp_transaction_markers_pending"),
    ):
        assert quiet[name,] == after[name,] == 0, name
    assert ("esp_last_stable_offset_lag", "1", "t") not in after
    assert ("esp_open_transaction_idle_seconds", "1", "t") not in after


async def _show_a_later_coordinator(node, client, producer, partition):
    """Have a partition of topic t see the epoch of the next coordinator: it refuses the markers of the present one."""
    later = node.node.broker.running.transactions.coordinator_of(ID).leader_epoch + 1
    part = "t", partition
    told = await write_markers(
        client, part, version=1, producer_id=producer[0], epoch=producer[1], commit=False, coordinator_epoch=later
    )
    assert told == [ErrorCode.none]


@with_transactions(metrics_listener=METRICS, offsets_topic_num_partitions=1)
async def test_markers_that_wait_and_those_that_are_refused_are_told(node, client):
    """One waits for the coordinator of its group, whose log cannot be read; the partition of the other one refuses it."""
    pending, refused = ("esp_transaction_markers_pending",), ("esp_transaction_markers_refused",)
    await create_topic(client, "t")
    producer = await _begin(client)
    await group_conversation.until_coordinated(client)
    part = "t", 0
    assert await commit_in(client, {part: 1}, name=ID, producer_id=producer[0]) == {part: ErrorCode.none}
    await ask_as_broker(client, (ID, producer, {"t": [0]}, False))
    await _show_a_later_coordinator(node, client, producer, 0)
    groups, path = "__consumer_offsets", f"/data/__consumer_offsets-0/{0:020d}.log"
    node.disk.corrupt(path, 61 + 20)

    async def lead_again():
        node.node.broker.running.groups.on_leading(node.hosted(groups))

    await node.process.run(lead_again())
    assert (await _until(node, lambda told: told["esp_unreadable_coordinator_partitions", groups]))[pending] == 0
    await end(client, producer)
    told = await _until(node, lambda told: told[refused])
    assert (told[pending], told[refused]) == (2, 1)
    node.disk.corrupt(path, 61 + 20)
    told = await _until(node, lambda told: told[pending] < 2)
    assert (told[pending], told[refused]) == (1, 1)
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    await until_state(client, "CompleteCommit")
    told = await _scrape(node)
    assert (told[pending], told[refused]) == (0, 0)


@with_transactions(metrics_listener=METRICS)
async def test_batches_that_wait_for_their_coordinator_are_told_with_their_time_and_those_that_are_refused(
    node, client
):
    """The coordinator answers the first batch at once; that of the next transaction waits for markers that are refused."""
    name = "esp_transaction_verification_{}"
    count, seconds, failures = ((name.format(each),) for each in ("seconds_count", "seconds_sum", "failures_total"))
    await create_topic(client, "t", partitions=2)
    producer = await _begin(client)
    told = await _scrape(node)
    assert told[count] == told[seconds] == told[failures] == 0
    await _produce_in(client, producer, 0, node.env.clock.wall_ms(), b"first")
    told = await _scrape(node)
    assert (told[count], told[failures]) == (1, 0)
    before_s = told[seconds]
    await ask_as_broker(client, (ID, producer, {"t": [1]}, False))
    await _show_a_later_coordinator(node, client, producer, 1)
    ended = await end(client, producer)
    next_batch = batch(0, b"next", producer_id=ended.producer_id, epoch=ended.producer_epoch)
    answer = await produce(client, "t", next_batch, transactional_id=ID)
    assert answer.error_code is ErrorCode.concurrent_transactions, "the producer is to send it again"
    told = await _scrape(node)
    assert (told[count], told[failures]) == (2, 1)
    assert 0.1 <= told[seconds] - before_s < 0.2, "add.partitions.to.txn.retry.backoff.max.ms"


@with_transactions(metrics_listener=METRICS)
async def test_a_transaction_is_late_when_its_last_record_is_older_than_any_timeout_and_five_minutes(node, client):
    await create_topic(client, "t", partitions=2)
    minute_ms = 60_000
    producer, now_ms = await _begin(client), node.env.clock.wall_ms()
    await _produce_in(client, producer, 0, now_ms - 19 * minute_ms)
    assert (await _scrape(node))["esp_partitions_with_late_transactions",] == 0
    await _produce_in(client, producer, 1, now_ms - 21 * minute_ms)
    assert (await _scrape(node))["esp_partitions_with_late_transactions",] == 1


@with_transactions(metrics_listener=METRICS)
async def test_the_partitions_that_hold_back_most_are_told_and_no_more(node, client):
    count = PARTITIONS_SHOWN + 3
    await create_topic(client, "t", partitions=count)
    begun = await init(client)
    for partition in range(count):
        values = [b"v"] * (1 + partition)
        opened = batch(
            0, *values, producer_id=begun.producer_id, epoch=begun.producer_epoch, timestamp_ms=1 + partition
        )
        await produce(client, "t", opened, partition=partition, transactional_id=ID)
    told = await _scrape(node)
    assert told["esp_partitions_with_open_transactions",] == count
    lags = {key[1]: value for key, value in told.items() if key[0] == "esp_last_stable_offset_lag"}
    assert lags == {str(partition): 1 + partition for partition in range(3, count)}
    idle = {key[1] for key in told if key[0] == "esp_open_transaction_idle_seconds"}
    assert idle == {str(partition) for partition in range(PARTITIONS_SHOWN)}


@simulated(metrics_listener=METRICS, authorizer_class_name=STANDARD_AUTHORIZER, super_users=("User:root",))
async def test_denials_are_told_by_principal(node):
    client = await client_of(node, "User:alice")
    for _ in range(2):
        assert [topic.error_code for topic in await create_topics(client, [("t", 1, {})])] == [
            ErrorCode.topic_authorization_failed
        ]
    told = await _scrape(node)
    assert told["esp_authorization_denials_total", "User:alice"] == 2
    assert not any(name.startswith("esp_tls") for name, *_ in told)


@simulated(metrics_listener=METRICS, **with_sasl(lifetime_ms=60_000))
async def test_log_ins_and_their_failures_are_told_by_listener_and_mechanism(node):
    assert not any(name.startswith("esp_log_in") for name, *_ in await _scrape(node))
    client = await node.client()
    for _ in range(2):  # one, and its renewal
        assert (await log_in(client)).error_code == ErrorCode.none
    await log_in(await node.client(), WRONG)
    assert (await log_in(client, WRONG)).error_code != ErrorCode.none
    told = await _scrape(node)
    assert told["esp_log_ins_total", "plaintext", "PLAIN"] == 2
    assert told["esp_log_in_failures_total", "plaintext", "PLAIN"] == 2


@simulated(metrics_listener=METRICS, topic_trash_max_bytes=150_000)
async def test_the_trash_and_what_had_to_go_early_are_told(node):
    client = await node.client()
    told = await _scrape(node)
    assert told["esp_trash_topics",] == told["esp_trash_bytes",] == told["esp_trash_early_purges_total",] == 0
    for name in "ab":
        await create_topic(client, name, topic_trash_retention_ms="3600000")
        await produce(client, name, records(bytes(100_000)))
        await delete_topic(client, name)
    assert (await _scrape(node))["esp_trash_topics",] == 2
    await asyncio.sleep(3 * GUARD_INTERVAL_MS / 1000)
    told = await _scrape(node)
    assert told["esp_trash_topics",] == told["esp_trash_early_purges_total",] == 1
    assert 100_000 < told["esp_trash_bytes",] < 110_000
