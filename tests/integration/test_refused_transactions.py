"""At transaction.version 0 there are no transactions: every client that begins one is refused for good within seconds, and asks no more."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TransactionalIdAuthorizationFailed
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import TransactionalIdAuthorizationFailedError

from esp.cli.node.format import random_uuid
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import MakeTopic

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="Kafka has transactions")

TIMEOUT_S = 60
"""How long a client would go on asking."""

AT_ONCE_S = 30
"""Less than that, with a JVM to start on a busy machine; on a quiet one it takes one or two."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node of a cluster that began at that level."""
    made = Node(tmp_path_factory.mktemp("node") / "data")
    try:
        made.format(random_uuid(), "--standalone", "--feature", "transaction.version=0")
        yield made.start()
        made.stop()
    finally:
        if made.is_running:
            made.kill()


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Each client has given up long before its time is over."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < AT_ONCE_S


def test_librdkafka_ends(node: NodeProcess) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap, "transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(TIMEOUT_S)
    error = refused.value.args[0]
    assert error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()
    assert "There are no transactions" in error.str()


def test_kafka_python_ends(node: NodeProcess) -> None:
    producer = KafkaProducer(
        bootstrap_servers=node.bootstrap, transactional_id="t", max_block_ms=TIMEOUT_S * 1000, acks="all"
    )
    try:
        with pytest.raises(TransactionalIdAuthorizationFailedError):
            producer.init_transactions()
    finally:
        producer.close(timeout=5)


def test_aiokafka_ends(node: NodeProcess) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=node.bootstrap, transactional_id="t")
        try:
            with pytest.raises(TransactionalIdAuthorizationFailed):
                await asyncio.wait_for(producer.start(), TIMEOUT_S)
        finally:
            await producer.stop()

    asyncio.run(start())


@pytest.mark.kafka
def test_kafkas_producer_ends(kafka_tools: KafkaTools, node: NodeProcess, make_topic: MakeTopic) -> None:
    done = kafka_tools.run(
        "producer-perf-test",
        *("--bootstrap-server", node.bootstrap, "--topic", make_topic(), "--num-records", "10", "--record-size", "10"),
        *("--throughput", "-1", "--transactional-id", "t", "--command-property", f"max.block.ms={TIMEOUT_S * 1000}"),
    )
    assert done.returncode != 0
    assert "TransactionalIdAuthorizationException" in done.stderr
    assert "10 records sent" not in done.stdout


@pytest.mark.kafka
@pytest.mark.parametrize(
    "arguments",
    [("describe", "--transactional-id", "t"), ("forceTerminateTransaction", "--transactionalId", "t")],
    ids=lambda arguments: arguments[0],
)
def test_kafkas_tool_ends(kafka_tools: KafkaTools, node: NodeProcess, arguments: tuple[str, ...]) -> None:
    done = kafka_tools.run(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", node.bootstrap, *arguments
    )
    assert done.returncode != 0
    assert "authorization" in done.stderr
