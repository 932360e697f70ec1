"""Measures how soon a broker serves, and how little it holds when it has nothing to do."""

import time
from typing import Final

from benchmarks.batches import PARTITIONS
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import create_topic, delete_topic, wait_until_served
from benchmarks.produce_load import produce
from benchmarks.results import IDLE_MEMORY, START, START_AFTER_KILL, Metric
from esp.testing.node_process import NodeProcess

SETTLING_S: Final = 4.0
"""After its start, before a broker counts as idle."""

LOG_SIZE: Final = 1_000_000_000
_TOPIC: Final = "start-up"


def measure_start(node: NodeProcess) -> dict[Metric, float]:
    """Start a stopped broker with formatted, nearly empty directories; it runs on. Ready is when it answers Metadata."""
    start_s = _start(node, {})
    time.sleep(SETTLING_S)
    return {START: start_s, IDLE_MEMORY: node.rss_bytes() / 1e6}


def measure_start_after_kill(node: NodeProcess, batch: bytes) -> dict[Metric, float]:
    """Give a running broker 1 GB of log, kill it, and start it again. Ready is when all partitions answer.

    The log is deleted afterwards; the broker runs on.
    """
    create_topic(node.port, _TOPIC, PARTITIONS)
    produce(node.port, _TOPIC, batch, LOG_SIZE // len(batch))
    node.kill()
    start_s = _start(node, {_TOPIC: PARTITIONS})
    delete_topic(node.port, _TOPIC)
    wait_until_deleted(node, _TOPIC)
    return {START_AFTER_KILL: start_s}


def _start(node: NodeProcess, topics: dict[str, int]) -> float:
    started = time.perf_counter()
    node.start()
    wait_until_served(node.port, topics)
    return time.perf_counter() - started
