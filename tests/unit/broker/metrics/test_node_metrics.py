"""What a whole node tells of itself."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families

from esp.ports.network import Address
from esp.records.builder import NewRecord, build_batch
from esp.settings.broker import MetricsListener
from tests.unit.broker.conversation import create_topic, fetch_later, produce
from tests.unit.broker.metrics.test_http_server import GET, Scraper
from tests.unit.broker.simulated_node import records, simulated

measured = simulated(metrics_listener=MetricsListener("127.0.0.1", 9308))


async def _scrape(node):
    """The samples by name, those with labels by name and label values."""
    scraper = await Scraper().open(node, Address("127.0.0.1", 9308))
    answer = await scraper.ask(GET)
    scraper.connection.abort()
    _, _, body = answer.partition(b"\r\n\r\n")
    return {
        (sample.name, *(value for label, value in sorted(sample.labels.items()) if label != "le")): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.labels.get("le", "+Inf") == "+Inf"
    }


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


@simulated(metrics_listener=MetricsListener("127.0.0.1", 9308), log_cleaner_backoff_ms=100)
async def test_rounds_of_compaction_are_counted(node):
    client = await node.client()
    await create_topic(client, "t", cleanup_policy="compact", segment_bytes=1 << 20)
    assert (await _scrape(node))["esp_compaction_rounds_total",] == 0
    for _ in range(12):
        await produce(client, "t", build_batch([NewRecord(bytes(300_000), b"k")], timestamp_ms=1_795_000_000_000))
    for _ in range(1000):
        told = await _scrape(node)
        if told["esp_compaction_rounds_total",]:
            break
        await asyncio.sleep(0.1)
    assert told["esp_compaction_rounds_total",] == 1
    assert told["esp_compaction_read_bytes_total",] > told["esp_compaction_written_bytes_total",] > 300_000
    assert told["esp_compaction_last_round_seconds",] > 0
    assert 0 < told["esp_compaction_map_utilization",] < 1
    assert told["esp_compaction_failures_total",] == told["esp_compaction_uncleanable_partitions",] == 0
