"""Clients that take all connections of a node keep other brokers out neither of ours nor of Apache Kafka's (KIP-402)."""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.conformance.test_sasl import Stranger
from tests.integration.conftest import eventually

pytestmark = pytest.mark.kafka

CONNECTIONS_MAX = 6
LISTENERS = ("CLIENTS", "BROKERS", "CONTROLLER")


@pytest.fixture(params=["ours", "kafka"])
def ports(request: pytest.FixtureRequest, tmp_path: Path, kafka_tools: KafkaTools) -> Iterator[dict[str, int]]:
    """Those of a node whose brokers have a listener of their own."""
    ports = {name: free_port() for name in LISTENERS}
    addresses = [f"{name}://127.0.0.1:{port}" for name, port in ports.items()]
    settings = {
        "listeners": ",".join(addresses),
        "advertised.listeners": ",".join(addresses[:2]),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
        "inter.broker.listener.name": "BROKERS",
        "max.connections": str(CONNECTIONS_MAX),
    }
    node: NodeProcess = Node(tmp_path, settings, ports["CLIENTS"])
    if request.param == "kafka":
        node = RealKafka(tmp_path, settings, ports["CLIENTS"], tools=kafka_tools)
    node.format(secrets.token_urlsafe(16))
    with node:
        yield ports


def is_served(stranger: Stranger) -> bool:
    stranger.seen.clear()
    stranger.versions()
    return stranger.seen == [("versions", 0, True)]


def test_a_broker_gets_the_place_of_a_client(ports: dict[str, int]) -> None:
    with ExitStack() as opened:

        def connect(listener: str) -> Stranger:
            stranger = Stranger(ports[listener])
            opened.enter_context(stranger.socket)
            return stranger

        clients: list[Stranger] = []

        def all_are_taken() -> bool:
            """Connections of the start, such as the node's own, may still be there."""
            clients[:] = [client for client in clients if is_served(client)]
            clients.extend(connect("CLIENTS") for _ in range(CONNECTIONS_MAX - len(clients)))
            return all(is_served(client) for client in clients)

        eventually(all_are_taken, 30)
        broker = connect("BROKERS")
        assert is_served(broker)
        eventually(lambda: sum(is_served(client) for client in clients) == CONNECTIONS_MAX - 1)
        assert is_served(broker)
