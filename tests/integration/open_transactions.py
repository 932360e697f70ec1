"""Transactions that stay open: left by a client that is killed, or begun by a late batch, so that no coordinator ends them."""

import json
import signal
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any, Final

from kio.schema.produce.v9 import request as produce_v9

from esp.records.builder import NewRecord, build_batch
from tests.integration.transactions import TIMEOUT_S, transactional_producer
from tests.integration.wire import Listener, Wire

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
settings = {"bootstrap.servers": sys.argv[1], "transactional.id": sys.argv[2], "transaction.timeout.ms": 600_000, "log_level": 0}
producer = Producer(settings)
producer.init_transactions(30)
producer.begin_transaction()
producer.produce(sys.argv[3], b"held", partition=0, timestamp=int(time.time() * 1000) - int(sys.argv[4]))
assert producer.flush(30) == 0
print("open", flush=True)
time.sleep(600)
"""


def run_esp(*words: str, status: int = 0) -> tuple[str, str]:
    """Run a command; return its output and its messages."""
    command = [sys.executable, "-m", "esp", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout, done.stderr


def esp(bootstrap: str, verb: str, *arguments: str, status: int = 0) -> tuple[str, str]:
    """Run a verb of ``esp transactions``; return its output and its messages."""
    return run_esp("transactions", verb, "--bootstrap-server", bootstrap, *arguments, status=status)


def told(bootstrap: str, verb: str, *arguments: str) -> Any:
    """Run a verb and return what it prints for programs."""
    return json.loads(esp(bootstrap, verb, *arguments, "--json")[0])


def leave_open(bootstrap: str, transactional_id: str, topic: str) -> None:
    """Have a producer write into a transaction that its coordinator leaves open for ten minutes, and kill the producer."""
    arguments = [sys.executable, "-c", _HELD, bootstrap, transactional_id, topic, str(AGE_MS)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == "open\n"
        finally:
            client.send_signal(signal.SIGKILL)


def write_late(bootstrap: str, leader: Listener, transactional_id: str, topic: str) -> int:
    """Commit a transaction, then write one more record of its producer, which opens a transaction that the coordinator does not have.

    Returns:
        The record's offset.
    """
    producer = transactional_producer(bootstrap, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"committed", partition=0)
    producer.commit_transaction(TIMEOUT_S)
    [described] = told(bootstrap, "describe", "--transactional-id", transactional_id)
    [known] = [
        each
        for each in told(bootstrap, "describe-producers", "--topic", topic, "--partition", "0")
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
    with Wire(leader) as wire:
        [answered] = wire.call(request).responses
    [partition] = answered.partition_responses
    assert partition.error_code == 0
    return int(partition.base_offset)
