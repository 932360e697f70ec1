"""``esp transactions`` on a node whose transactional clients are killed, beside Kafka's own ``transactions`` tool."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from kio.schema.produce.v9 import request as produce_v9

from esp.records.builder import NewRecord, build_batch
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from tests.integration.conftest import eventually
from tests.integration.transactions import TIMEOUT_S, read_all, serve_transactions, transactional_producer
from tests.integration.wire import Wire

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "num.partitions": "1",
    "transaction.partition.verification.enable": "false",  # so that a late batch opens a transaction, as with releases before KIP-890
}
AGE_MS: Final = 20 * 60 * 1000
"""More than the 15 minutes after which ``find-hanging`` looks into a transaction."""

_HELD: Final = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1], "transactional.id": sys.argv[2], "log_level": 0})
producer.init_transactions(30)
producer.begin_transaction()
producer.produce(sys.argv[3], b"held", partition=0, timestamp=int(time.time() * 1000) - int(sys.argv[4]))
assert producer.flush(30) == 0
print("open", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that serves transactions by the newest protocol."""
    node = Node(tmp_path_factory.mktemp("transactions") / "data", SETTINGS).start()
    try:
        serve_transactions(node.bootstrap, [node])
        yield node
        node.stop()
    finally:
        if node.is_running:
            node.kill()


def esp(node: NodeProcess, *arguments: str, status: int = 0) -> tuple[str, str]:
    group, verb, *others = arguments
    command = [sys.executable, "-m", "esp", group, verb, "--bootstrap-server", node.bootstrap, *others]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def told(node: NodeProcess, *arguments: str) -> Any:
    return json.loads(esp(node, "transactions", *arguments, "--json")[0])


def leave_open(node: NodeProcess, transactional_id: str, topic: str) -> None:
    """Have a producer write into a transaction, and kill it."""
    arguments = [sys.executable, "-c", _HELD, node.bootstrap, transactional_id, topic, str(AGE_MS)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "open\n"
        finally:
            client.send_signal(signal.SIGKILL)


def write_late(node: NodeProcess, transactional_id: str, topic: str) -> int:
    """Commit a transaction, then write one more record of its producer, which opens a transaction that the coordinator does not have."""
    producer = transactional_producer(node.bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    [described] = told(node, "describe", "--transactional-id", transactional_id)
    [known] = [
        each
        for each in told(node, "describe-producers", "--topic", topic, "--partition", "0")
        if each["producer_id"] == described["producer_id"]
    ]
    timestamp_ms = int(time.time() * 1000) - AGE_MS
    batch = build_batch(
        [NewRecord(b"hung", timestamp=timestamp_ms)],
        timestamp_ms=timestamp_ms,
        producer_id=known["producer_id"],
        producer_epoch=known["producer_epoch"],
        base_sequence=known["last_sequence"] + 1,  # the same one again would be a repetition
        transactional=True,
    )
    data: Any = produce_v9.PartitionProduceData(index=0, records=batch)
    request: Any = produce_v9.ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout=timedelta(seconds=10),
        topic_data=(produce_v9.TopicProduceData(name=topic, partition_data=(data,)),),
    )
    with Wire(node) as wire:
        [answered] = wire.call(request).responses
    [partition] = answered.partition_responses
    assert partition.error_code == 0
    return int(partition.base_offset)


def test_transaction_of_a_killed_client_is_shown_with_its_owner_and_not_called_hanging(
    served: NodeProcess, topic: str
) -> None:
    leave_open(served, f"{topic}-owner", topic)
    [listed] = [
        each for each in told(served, "list", "--state", "ongoing") if each["transactional_id"] == f"{topic}-owner"
    ]
    [shown] = told(served, "oldest", "--topic", topic)
    assert shown["transactional_id"] == f"{topic}-owner"
    assert (shown["producer_id"], shown["start_offset"], shown["state"]) == (listed["producer_id"], 0, "Ongoing")
    assert 0 <= shown["age_ms"] < AGE_MS, "the coordinator knows when it began; the record's own time is older"
    [described] = told(served, "describe", "--transactional-id", f"{topic}-owner")
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert told(served, "find-hanging", "--topic", topic) == []
    _, error = esp(
        served,
        *("transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0", "--execute"),
        status=1,
    )
    assert "does not hang" in error
    assert f"esp transactions describe --transactional-id {topic}-owner" in error
    assert [each["producer_id"] for each in told(served, "oldest", "--topic", topic)] == [listed["producer_id"]]


def test_transaction_that_no_coordinator_has_is_found_and_ended(
    served: NodeProcess, topic: str, kafka_tools: KafkaTools
) -> None:
    offset = write_late(served, f"{topic}-late", topic)
    [hanging] = told(served, "find-hanging")
    assert (hanging["topic"], hanging["partition"], hanging["start_offset"]) == (topic, 0, offset)
    by_kafka = kafka_tools.run("transactions", "--bootstrap-server", served.bootstrap, "find-hanging", "--topic", topic)
    head, row = (line.split() for line in by_kafka.stdout.splitlines() if line.strip())
    ours, _ = esp(served, "transactions", "find-hanging", "--topic", topic)
    assert [line.split() for line in ours.splitlines()] == [head, row]

    where = ("--topic", topic, "--partition", "0", "--start-offset", str(offset))
    said, _ = esp(served, "transactions", "abort", *where, "--dry-run")
    assert f"Would write the marker that aborts the transaction of producer {hanging['producer_id']} " in said
    assert len(told(served, "find-hanging")) == 1
    said, _ = esp(served, "transactions", "abort", *where, "--execute")
    assert said.startswith("Wrote the marker")
    assert told(served, "find-hanging") == []
    assert told(served, "oldest", "--topic", topic) == []
    eventually(lambda: read_all(served.bootstrap, topic, 1, partitions=1) == [b"committed"], TIMEOUT_S)
