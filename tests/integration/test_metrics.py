"""A real node tells Prometheus of itself while real clients use it."""

import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from esp.testing.node import Node
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.open_transactions import AGE_MS, SETTINGS, leave_open
from tests.integration.transactions import serve_transactions, transactional_producer

RECORDS = 2000


def scrape(port: int) -> dict[tuple[str, ...], float]:
    """The samples without buckets, by name and label values."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:  # a node of this test
        text = answer.read().decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


@pytest.mark.timeout(120)
def test_what_clients_do_is_seen_in_the_metrics(tmp_path: Path) -> None:
    port = free_port()
    with Node(tmp_path, {"metrics.listener": f"127.0.0.1:{port}"}) as node:
        producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "all"})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number)
        assert producer.flush(60) == 0
        consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        seen = 0
        while seen < RECORDS:
            message = consumer.poll(60)
            assert message is not None, "a record in time"
            seen += message.error() is None
        told = scrape(port)
        consumer.close()
    assert told["esp_request_duration_seconds_count", "broker", "Produce"] > 0
    assert told["esp_request_duration_seconds_count", "broker", "FetchConsumer"] > 0
    assert told["esp_request_received_bytes_total", "broker", "Produce"] > RECORDS
    assert told["esp_request_sent_bytes_total", "broker", "FetchConsumer"] > RECORDS
    assert told["esp_partitions_led",] >= 1
    assert told["esp_connections", "broker"] >= 1
    assert told["esp_active_controller",] == 1
    assert 10_000_000 < told["process_resident_memory_bytes",] < 500_000_000
    assert told["process_open_fds",] > 5
    assert told["process_cpu_seconds_total",] > 0


@pytest.mark.timeout(120)
def test_a_transaction_that_a_killed_client_leaves_open_is_seen_where_it_holds_readers_back(tmp_path: Path) -> None:
    port = free_port()
    with Node(tmp_path, {**SETTINGS, "metrics.listener": f"127.0.0.1:{port}"}) as node:
        serve_transactions(node.bootstrap, [node])
        leave_open(node.bootstrap, "left", "t")
        producer = Producer({"bootstrap.servers": node.bootstrap})
        for _ in range(9):
            producer.produce("t", b"behind it", partition=0)
        assert producer.flush(60) == 0
        told = scrape(port)
        assert told["esp_last_stable_offset_lag", "0", "t"] == 10
        assert told["esp_open_transaction_idle_seconds", "0", "t"] * 1000 >= AGE_MS
        assert told["esp_partitions_with_open_transactions",] == told["esp_partitions_with_late_transactions",] == 1
        assert 0 < told["esp_oldest_transaction_seconds",] < 60
        transactional_producer(node.bootstrap, "left")  # the next producer of the id ends it

        def is_quiet() -> bool:
            now = scrape(port)
            counts = (
                *("esp_partitions_with_open_transactions", "esp_partitions_with_late_transactions"),
                *("esp_transaction_markers_pending", "esp_oldest_transaction_seconds"),
            )
            return not any(now[name,] for name in counts) and ("esp_last_stable_offset_lag", "0", "t") not in now

        eventually(is_quiet)
