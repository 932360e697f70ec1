"""The measurements: bytes over TLS, small requests, log-ins."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.batches import PARTITIONS, large_batch, small_batch
from benchmarks.brokers import wait_until_deleted
from benchmarks.client import OpenClient, create_topic, delete_topic
from benchmarks.consume_load import measure_consume
from benchmarks.cost import CostMeter
from benchmarks.page_cache import touch_pages
from benchmarks.produce_load import measure_produce
from benchmarks.request_load import measure_small_requests
from benchmarks.results import CONSUME_ALL, CONSUME_USER, PRODUCE_ALL, PRODUCE_USER, REQUEST_ALL, Metric
from benchmarks.security.guarded import PLAINTEXT_DOOR, USER, Doors
from benchmarks.security.metrics import (
    GUARDED_REQUEST,
    LOG_IN,
    SECURE_REQUEST,
    TLS_CONSUME_ALL,
    TLS_CONSUME_USER,
    TLS_PRODUCE_ALL,
    TLS_PRODUCE_USER,
)
from benchmarks.stage import Stage
from esp.testing.node_process import NodeProcess

ROUND_BYTES: Final = 500_000_000
CONSUME_PASSES: Final = 2
REQUESTS: Final = 40_000
LOG_INS: Final = 400
ANONYMOUS: Final = "ANONYMOUS"

Measure = Callable[[Stage, Doors], None]


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the report: the protocol of its clients' listener, the user that they are, and the measurement."""

    protocol: str
    user: str
    measure: Measure


def _with_topic(stage: Stage, open_client: OpenClient) -> Iterator[tuple[int, str]]:
    """The rounds, each with a topic of its own at all brokers."""
    for number in stage.rounds():
        topic = f"round-{number + stage.extent.warm_up_rounds}"
        for node in stage.nodes.values():
            create_topic(node.port, topic, PARTITIONS, open_client)
        yield number, topic
        for node in stage.nodes.values():
            delete_topic(node.port, topic, open_client)
            wait_until_deleted(node, topic)


def measure_bytes(stage: Stage, doors: Doors) -> None:
    """Produce and consume batches of 128 KiB over TLS."""
    batch, directory = large_batch(), Path(stage.directory)
    count = stage.scaled(ROUND_BYTES) // len(batch)
    for number, topic in _with_topic(stage, doors.by_plain):
        for name, node in stage.in_turn(number):
            touch_pages(directory, count * len(batch))
            found = measure_produce(node, topic, batch, count, doors.by_plain)
            stage.take(name, {TLS_PRODUCE_USER: found[PRODUCE_USER], TLS_PRODUCE_ALL: found[PRODUCE_ALL]}, number)
        for name, node in stage.in_turn(number):
            found = measure_consume(node, topic, count * len(batch), CONSUME_PASSES, doors.by_plain)
            stage.take(name, {TLS_CONSUME_USER: found[CONSUME_USER], TLS_CONSUME_ALL: found[CONSUME_ALL]}, number)


def measure_secure_requests(stage: Stage, doors: Doors) -> None:
    """Requests of 100 bytes over TLS, by a user that has logged in."""
    _measure_requests(stage, doors.by_plain, SECURE_REQUEST)


def measure_guarded_requests(stage: Stage, _doors: Doors) -> None:
    """Requests of 100 bytes in plaintext, with rules and quotas."""
    _measure_requests(stage, PLAINTEXT_DOOR, GUARDED_REQUEST)


def _measure_requests(stage: Stage, open_client: OpenClient, metric: Metric) -> None:
    batch, count = small_batch(), stage.scaled(REQUESTS, 50)
    for number, topic in _with_topic(stage, open_client):
        for name, node in stage.in_turn(number):
            found = measure_small_requests(node, topic, batch, count, open_client)
            stage.take(name, {metric: found[REQUEST_ALL]}, number)


def measure_log_ins(stage: Stage, doors: Doors) -> None:
    """Connections that do nothing but log in, one after the other."""
    count = stage.scaled(LOG_INS, 10)
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            stage.take(name, {LOG_IN: _cost_of_log_ins_ms(node, doors, count)}, number)


def _cost_of_log_ins_ms(node: NodeProcess, doors: Doors, count: int) -> float:
    with CostMeter(node) as cost:
        for _ in range(count):
            doors.by_scram(node.port).close()
    return cost.all_s * 1000 / count


ROWS: Final = {
    "bytes": Row("SASL_SSL", USER, measure_bytes),
    "requests": Row("SASL_SSL", USER, measure_secure_requests),
    "guarded-requests": Row("PLAINTEXT", ANONYMOUS, measure_guarded_requests),
    "log-ins": Row("SASL_SSL", USER, measure_log_ins),
}
"""The rows by name, in the order of the report; each has brokers of its own."""
