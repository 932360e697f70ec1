"""The nodes that hostile clients attack: how they are set up, the way in for an honest client, and the kinds of attackers."""

import secrets
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol

from esp.records.builder import NewRecord, build_batch
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration import messages
from tests.integration.conftest import eventually
from tests.integration.fuzz_report import MIB
from tests.integration.honest_client import Door
from tests.integration.hostile_clients import Attacker
from tests.integration.hostile_strangers import (
    BELIEVED,
    HARD_TO_CHECK,
    INSIDER,
    LONG,
    LONG_BYTES,
    MALLORY,
    READER,
    SENDERS,
    Stranger,
    certificate_path,
)
from tests.integration.wire import Wire
from tests.models.access_tokens import ISSUER
from tests.models.certificates import Authority

SETTINGS: Final = {
    "max.connections.per.ip": "300",
    "connections.max.idle.ms": "5000",
    "queued.max.request.bytes": str(64 * MIB),
}
HONEST: Final = ("honest", "an honest password")


class Ground(Protocol):
    """What is attacked, and by whom."""

    attacker: type[Attacker]
    door: Door

    def make(self, name: str) -> NodeProcess:
        """A node, not started."""

    def fill(self, wire: Wire) -> None:
        """Write what the attackers read, on an honest client's connection with a node that has been started."""


class Address(NamedTuple):
    """The place of a node's client listener."""

    port: int


class OpenDoor:
    """A connection in plaintext."""

    def open(self, port: int, timeout_s: float = 10) -> Wire:
        """See :class:`tests.integration.honest_client.Door`."""
        return Wire(Address(port), timeout_s)


@dataclass(frozen=True)
class GuardedDoor:
    """A connection over TLS, on which a user has logged in.

    Attributes:
        trusted: the file of the authority.
    """

    trusted: Path

    def open(self, port: int, timeout_s: float = 10) -> Wire:
        """See :class:`tests.integration.honest_client.Door`."""
        wire = Wire(Address(port), timeout_s, tls=ssl.create_default_context(cafile=self.trusted))
        wire.log_in(*HONEST)
        return wire


class OpenGround:
    """A node that serves everyone.

    Args:
        directory: of the nodes.
    """

    attacker: type[Attacker] = Attacker

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.door: Door = OpenDoor()

    def make(self, name: str) -> NodeProcess:
        """See :class:`Ground`."""
        return Node(self.directory / name, SETTINGS)

    def fill(self, wire: Wire) -> None:
        """See :class:`Ground`: nothing."""


class KafkaGround(OpenGround):
    """Apache Kafka, for a comparison."""

    MORE: ClassVar[Mapping[str, str]] = {"queued.max.request.bytes": str(100 * MIB)}
    """Kafka allows no less than one request may have."""

    def make(self, name: str) -> NodeProcess:
        """See :class:`Ground`."""
        return RealKafka(self.directory / name, {**SETTINGS, **self.MORE})


class SecureGround(OpenGround):
    """A node that speaks TLS, takes certificates and asks for log-ins, with rules of access: all users but one are without rights."""

    attacker: type[Attacker] = Stranger

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._authority = Authority()
        self._trusted = self._authority.write_pem(directory / "ca.pem")
        self._store = self._authority.issue("CN=node").write_pem(directory / "node.pem")
        for sender in SENDERS:
            self._authority.issue(f"CN={sender}", hosts=()).write_pem(certificate_path(directory, sender))
        self._keys = directory / "keys.json"
        self._keys.write_bytes(BELIEVED.key_set())
        self.door = GuardedDoor(self._trusted)

    def make(self, name: str) -> NodeProcess:
        """See :class:`Ground`."""
        ports = {"PLAINTEXT": free_port(), "CONTROLLER": free_port()}
        node = Node(
            self.directory / name,
            {
                **SETTINGS,
                "listeners": ",".join(f"{listener}://{HOST}:{port}" for listener, port in ports.items()),
                "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SSL",
                "listener.name.controller.ssl.client.auth": "requested",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self._store),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self._trusted),
                "listener.name.plaintext.ssl.client.auth": "requested",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
                "sasl.oauthbearer.jwks.endpoint.url": f"file://{self._keys}",
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": "another service",
                "sasl.plain.credentials": "scram",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": f"User:{HONEST[0]};User:{READER[0]};User:CN=node;User:CN={INSIDER}",
            },
            ports["PLAINTEXT"],
        )
        users = [
            *(f'name={user},password="{password}"' for user, password in (HONEST, MALLORY, READER)),
            f'name={HARD_TO_CHECK},iterations=16384,password="{secrets.token_urlsafe(16)}"',
        ]
        added = (f"--add-scram=SCRAM-SHA-512=[{user}]" for user in users)
        node.format(secrets.token_urlsafe(16), "--standalone", *added)
        return node

    def fill(self, wire: Wire) -> None:
        """See :class:`Ground`: a topic whose records fill no one's buffers."""
        record = NewRecord(secrets.token_bytes(MIB - 1000))
        batch = build_batch([record], base_offset=0, leader_epoch=-1, timestamp_ms=int(time.time() * 1000))
        wire.call(messages.metadata(LONG, create=True))
        eventually(lambda: messages.send_batch(wire, LONG, batch)[0] == 0, 30)
        for _ in range(LONG_BYTES // MIB):
            assert messages.send_batch(wire, LONG, batch)[0] == 0
