"""Reading with isolation level read_committed beside read_uncommitted, on a log of which a tenth is aborted."""

import time
from typing import Final

from confluent_kafka import Producer

from benchmarks.batches import PARTITIONS
from benchmarks.client import Client, create_topic, delete_topic
from benchmarks.consume_load import FETCH_VERSION, RECEIVE_BUFFER_SIZE, FetchSession
from benchmarks.cost import CostMeter
from benchmarks.stage import Stage
from benchmarks.transactions.metrics import READ_COMMITTED, READ_RATIO, READ_UNCOMMITTED
from esp.protocol.registry import ApiKey
from esp.testing.node_process import NodeProcess

SIZE: Final = 1_000_000_000
PASSES: Final = 3
"""The passes of each kind in each round."""

ABORTED_EVERY: Final = 10
RECORD_SIZE: Final = 1000
TRANSACTION_RECORDS: Final = 500
_TOPIC: Final = "ten-percent-aborted"
_TIMEOUT_S: Final = 60.0


def fill_with_transactions(node: NodeProcess, topic: str, size: int) -> None:
    """Write ``size`` bytes of records in transactions, every tenth of which is aborted."""
    producer = Producer(
        {
            "bootstrap.servers": node.bootstrap,
            "transactional.id": f"fill-{topic}",
            "batch.size": 65536,
            "linger.ms": 2,
            "log_level": 0,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    value = bytes(RECORD_SIZE)
    for number in range(max(ABORTED_EVERY, size // (RECORD_SIZE * TRANSACTION_RECORDS))):
        producer.begin_transaction()
        for place in range(TRANSACTION_RECORDS):
            producer.produce(topic, value, partition=place % PARTITIONS)
        if number % ABORTED_EVERY:
            producer.commit_transaction(_TIMEOUT_S)
        else:
            producer.flush(_TIMEOUT_S)  # an abort throws away what is not sent
            producer.abort_transaction(_TIMEOUT_S)


def read_all(port: int, topic: str, isolation_level: int) -> int:
    """Read a topic up to its end, and return the bytes."""
    session = FetchSession(topic, isolation_level)
    with Client(port, RECEIVE_BUFFER_SIZE) as client:
        while session.take(client.ask(ApiKey.FETCH, FETCH_VERSION, session.next_request())):
            pass
    return session.received


def measure_reading(stage: Stage) -> None:
    """Measure each broker against itself."""
    for node in stage.nodes.values():
        create_topic(node.port, _TOPIC, PARTITIONS)
        fill_with_transactions(node, _TOPIC, stage.scaled(SIZE))
    time.sleep(1)  # the last markers
    for number in stage.rounds():
        for name, node in stage.in_turn(number):
            costs = []
            for isolation_level in (0, 1):
                read = 0
                with CostMeter(node) as cost:
                    for _ in range(PASSES):
                        read += read_all(node.port, _TOPIC, isolation_level)
                costs.append(cost.all_s / (read / 1e9))
            values = {READ_UNCOMMITTED: costs[0], READ_COMMITTED: costs[1], READ_RATIO: costs[1] / costs[0]}
            stage.take(name, values, number)
    for node in stage.nodes.values():
        delete_topic(node.port, _TOPIC)
