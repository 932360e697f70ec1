"""An Envelope (58) says in whose name a request is made: of others than nodes it must come to nothing, at each listener of a real node."""

import secrets
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.envelope.v0.request import EnvelopeRequest
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from esp.model.errors import ErrorCode
from esp.protocol.enclosed import encode_address, encode_principal
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.node import Node
from esp.testing.ports import free_port
from tests.integration import messages
from tests.integration.conftest import eventually
from tests.integration.wire import Wire, frame
from tests.models.certificates import Authority

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
NODE, MALLORY = ("node", "the node's password"), ("mallory", "a password that everyone knows")
USERS = " ".join(f'user_{user}="{password}"' for user, password in (NODE, MALLORY))


class Guarded:
    """A node whose clients, and whose controller's, log in by PLAIN over TLS; its own user is the one that may act for the cluster."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self._tls = ssl.create_default_context(cadata=authority.pem)
        self.ports = {"PLAINTEXT": free_port(), "CONTROLLER": free_port()}
        self.process = Node(
            directory / "node",
            {
                "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items()),
                "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                **{
                    f"listener.name.{name}.plain.sasl.jaas.config": (
                        f'{PLAIN} username="{NODE[0]}" password="{NODE[1]}" {USERS};'
                    )
                    for name in ("plaintext", "controller")
                },
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("CN=node").write_pem(directory / "node.pem")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(authority.write_pem(directory / "ca.pem")),
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": f"User:{NODE[0]}",
            },
            self.ports["PLAINTEXT"],
        )
        self.process.format(secrets.token_urlsafe(16), "--standalone")

    def wire(self, listener: str, user: tuple[str, str]) -> Wire:
        """A connection on which a user has logged in."""
        wire = Wire(self.process, port=self.ports[listener], tls=self._tls)
        wire.log_in(*user)
        return wire

    def has(self, topic: str) -> bool:
        """True if there is a topic of that name."""
        with self.wire("PLAINTEXT", NODE) as wire:
            (found,) = wire.call(messages.metadata(topic)).topics
        assert found.error_code in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
        return found.error_code is ErrorCode.none


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    made = Guarded(tmp_path_factory.mktemp("guarded"))
    with made.process:
        yield made


def envelope(topic: str) -> EnvelopeRequest:
    """The creation of a topic, in the name of the user that may do everything."""
    made = CreatableTopic(
        name=TopicName(topic), num_partitions=i32(1), replication_factor=i16(1), assignments=(), configs=()
    )
    enclosed = CreateTopicsRequest(
        topics=(made,), timeout=i32Timedelta.parse(timedelta(seconds=5)), validate_only=False
    )
    return EnvelopeRequest(
        request_data=frame(enclosed, 7)[4:],
        request_principal=encode_principal(f"User:{NODE[0]}"),
        client_host_address=encode_address("127.0.0.1"),
    )


@pytest.mark.parametrize("user", [MALLORY, NODE], ids=["mallory", "node"])
def test_a_broker_ends_the_connection_of_an_envelope(guarded: Guarded, user: tuple[str, str]) -> None:
    """Brokers pass requests on to controllers, so none is for a broker, not even a node's."""
    with guarded.wire("PLAINTEXT", NODE) as other, guarded.wire("PLAINTEXT", user) as wire:
        wire.socket.sendall(frame(envelope(f"by-{user[0]}"), 1))
        assert wire.is_closed_by_node()
        assert other.call(messages.metadata()).cluster_id, "only that connection ends"
    eventually(lambda: "API 58" in guarded.process.output)
    assert not guarded.has(f"by-{user[0]}")


def test_a_controller_does_nothing_for_an_envelope_of_a_client(guarded: Guarded) -> None:
    with guarded.wire("CONTROLLER", MALLORY) as wire:
        answer = wire.call(envelope("by-a-client"))
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert not answer.response_data
    denied = "Principal = User:mallory is Denied operation = CLUSTER_ACTION"
    eventually(lambda: denied in guarded.process.output)
    assert not guarded.has("by-a-client")


def test_a_controller_does_what_the_envelope_of_a_node_asks_for(guarded: Guarded) -> None:
    """So the two tests above fail for no other reason."""
    with guarded.wire("CONTROLLER", NODE) as wire:
        assert wire.call(envelope("by-a-node")).error_code is ErrorCode.none
    eventually(lambda: guarded.has("by-a-node"))
