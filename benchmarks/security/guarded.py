"""Brokers with rules of access and quotas, and the doors that clients take: over TLS with a log-in, or in plaintext without a name."""

import secrets
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from kio.schema.alter_client_quotas.v1 import request as alter_quotas
from kio.schema.create_acls.v3 import request as create_acls
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.static.primitive import f64, i8

from benchmarks.brokers import SHARED_SETTINGS, DefaultKafka
from benchmarks.client import RECEIVE_BUFFER_SIZE, Client, OpenClient, UnexpectedAnswerError, check
from benchmarks.results import ESP, KAFKA
from esp.authentication.login import begin_login
from esp.cli.certs.authority import Wanted
from esp.cli.certs.directory import CertificateDirectory
from esp.model.acl import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.sasl import SaslMechanism
from esp.model.sasl_login import SaslLogin
from esp.protocol.registry import ApiKey
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port

USER: Final = "bench"
CERTIFIED: Final = f"CN={USER}"
"""The user whose name is that of the client's certificate."""
ADMIN: Final = "admin"
PASSWORD: Final = "a password of benchmarks"
CIPHER: Final = "TLS_AES_256_GCM_SHA384"
DAYS: Final = 2
SCRAM_USER: Final = f'--add-scram=SCRAM-SHA-512=[name={USER},iterations=4096,password="{PASSWORD}"]'
RULES_AT_ONCE: Final = 1_000
FAR_ABOVE: Final = 1e12
"""A quota that is counted and never reached."""

_PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Certificates:
    """An authority, the store of the brokers, and that of a client with a certificate.

    Args:
        directory: for the files.
    """

    def __init__(self, directory: Path) -> None:
        now = datetime.now(UTC)
        made = CertificateDirectory(directory / "certs")
        made.create_blocking("Benchmark", DAYS, now)
        for name, hosts in (("node", (HOST, "localhost")), (USER, ())):
            made.issue_blocking(name, Wanted(name, hosts, DAYS), now, replaces=False)
        self.trusted = made.trusted
        self.store = made.store_of("node")
        self.client_store = made.store_of(USER)
        self.client_settings = {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.trusted),
            "ssl.certificate.location": str(self.client_store),
            "ssl.key.location": str(self.client_store),
        }
        """The settings of a client with the certificate, by librdkafka's names."""


class SecureClient(Client):
    """A connection over TLS 1.3, see :class:`benchmarks.client.Client`; it has not logged in yet."""

    def __init__(self, context: ssl.SSLContext, port: int, receive_buffer_size: int = RECEIVE_BUFFER_SIZE) -> None:
        super().__init__(port, receive_buffer_size)
        secured = context.wrap_socket(self.socket, server_hostname=HOST)
        found = secured.cipher()
        assert found is not None, "the handshake is done"
        assert found[0] == CIPHER, found
        self.socket: socket.socket = secured

    def _receive_exactly(self, size: int) -> memoryview:
        view = self._buffer[:size]
        position = 0
        while position < size:
            received = self.socket.recv_into(view[position:])
            if not received:
                raise UnexpectedAnswerError("the broker closed the connection")
            position += received
        return view


class Doors:
    """The ways in.

    Args:
        trusted: the file of the authority.
    """

    def __init__(self, trusted: Path) -> None:
        self._trusted = trusted
        self._context = _context(trusted)

    def by_plain(self, port: int, receive_buffer_size: int = RECEIVE_BUFFER_SIZE) -> Client:
        """Over TLS, logged in by PLAIN."""
        return _logged_in(SecureClient(self._context, port, receive_buffer_size), SaslMechanism.PLAIN, USER)

    def by_scram(self, port: int, receive_buffer_size: int = RECEIVE_BUFFER_SIZE) -> Client:
        """Over TLS, logged in by SCRAM-SHA-512."""
        return _logged_in(SecureClient(self._context, port, receive_buffer_size), SaslMechanism.SCRAM_SHA_512, USER)

    def by_certificate(self, store: Path) -> OpenClient:
        """Over TLS, with the certificate of a store."""
        context = _context(self._trusted)
        context.load_cert_chain(store)
        return partial(SecureClient, context)


def _context(trusted: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _logged_in(client: Client, mechanism: SaslMechanism, user: str) -> Client:
    exchange = begin_login(SaslLogin(mechanism, user, PASSWORD), lambda: secrets.token_urlsafe(18))
    answer = client.ask(ApiKey.SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism=mechanism.value))
    check(answer.error_code, "choosing a mechanism")
    message: bytes | None = exchange.first_message()
    while message is not None:
        answer = client.ask(ApiKey.SASL_AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=message))
        check(answer.error_code, f"logging in by {mechanism.value}")
        message = exchange.respond(bytes(answer.auth_bytes))
    return client


def guarded_brokers(
    names: list[str], directory: Path, certificates: Certificates, protocol: str
) -> dict[str, NodeProcess]:
    """Return the named brokers, not started: a listener of the protocol is for clients, and one with log-ins for an administrator."""
    made: dict[str, NodeProcess] = {}
    kinds: Mapping[str, type[Node | DefaultKafka]] = {ESP: Node, KAFKA: DefaultKafka}
    for name in names:
        settings, port = _settings(certificates, protocol)
        if name == ESP:
            settings["metrics.listener"] = f"{HOST}:{free_port()}"
        node = made[name] = kinds[name](directory / name, settings, port)
        node.format(secrets.token_urlsafe(16), "--standalone", SCRAM_USER)
    return made


def own_node(directory: Path, certificates: Certificates, protocol: str, *, has_authorizer: bool) -> Node:
    """Return a node of ours, formatted and with metrics; the rest is as for the guarded brokers."""
    settings, port = _settings(certificates, protocol)
    settings["metrics.listener"] = f"{HOST}:{free_port()}"
    if not has_authorizer:
        for name in ("authorizer.class.name", "super.users"):
            del settings[name]
    node = Node(directory, settings, port)
    node.format(secrets.token_urlsafe(16), "--standalone", SCRAM_USER)
    return node


def _settings(certificates: Certificates, protocol: str) -> tuple[dict[str, str], int]:
    """The settings of a broker, and its port for clients."""
    ports = {"CLIENTS": free_port(), "NODES": free_port(), "CONTROLLER": free_port()}
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in (USER, ADMIN))
    log_in = f'{_PLAIN_MODULE} required username="{ADMIN}" password="{PASSWORD}" {users};'
    listeners = ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
    settings = {
        **SHARED_SETTINGS,
        "node.id": "1",
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"CLIENTS:{protocol},NODES:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports['CONTROLLER']}",
        "inter.broker.listener.name": "NODES",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        **{f"listener.name.{name}.plain.sasl.jaas.config": log_in for name in ("clients", "nodes", "controller")},
        "listener.name.clients.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "listener.name.nodes.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required;",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trusted),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }
    return settings, ports["CLIENTS"]


def _administrator(node: NodeProcess) -> Client:
    """A connection on which everything is allowed; a context manager."""
    text = next(part for part in node.settings["listeners"].split(",") if part.startswith("NODES://"))
    return _logged_in(Client(int(text.rpartition(":")[2])), SaslMechanism.PLAIN, ADMIN)


def rule(
    user: str,
    resource_type: ResourceType,
    name: str,
    pattern: PatternType = PatternType.LITERAL,
    permission: AclPermission = AclPermission.ALLOW,
) -> create_acls.AclCreation:
    """A rule about all that a user may do with a resource."""
    return create_acls.AclCreation(
        resource_type=i8(resource_type),
        resource_name=name,
        resource_pattern_type=i8(pattern),
        principal=f"User:{user}",
        host="*",
        operation=i8(AclOperation.ALL),
        permission_type=i8(permission),
    )


def make_rules(client: Client, *rules: create_acls.AclCreation) -> None:
    """Have rules made."""
    answer: Any = client.ask(ApiKey.CREATE_ACLS, 3, create_acls.CreateAclsRequest(creations=rules))
    for result in answer.results:
        check(result.error_code, "making a rule")


def make_many_rules(node: NodeProcess, count: int) -> None:
    """Make rules about other users and topics, half of them for prefixes of names."""
    with _administrator(node) as client:
        for start in range(0, count, RULES_AT_ONCE):
            numbers = range(start, min(start + RULES_AT_ONCE, count))
            patterns = (PatternType.LITERAL, PatternType.PREFIXED)
            rules = [
                rule(f"user-{number}", ResourceType.TOPIC, f"t{number}", patterns[number % 2]) for number in numbers
            ]
            make_rules(client, *rules)


def guard(node: NodeProcess, user: str) -> None:
    """Let a user do all that the loads do, by rules, and give it quotas that it does not reach."""
    with _administrator(node) as client:
        guard_by(client, user)


def guard_by(administrator: Client, user: str) -> None:
    """Guard a broker by the connection of an administrator, see :func:`guard`."""
    make_rules(administrator, rule(user, ResourceType.TOPIC, "*"), rule(user, ResourceType.CLUSTER, CLUSTER_NAME))
    entry = alter_quotas.EntryData(
        entity=(alter_quotas.EntityData(entity_type="user", entity_name=user),),
        ops=tuple(
            alter_quotas.OpData(key=key, value=f64(FAR_ABOVE), remove=False)
            for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage")
        ),
    )
    request = alter_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False)
    answer: Any = administrator.ask(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
    for result in answer.entries:
        check(result.error_code, f"setting a quota ({result.error_message})")


PLAINTEXT_DOOR: Final[OpenClient] = Client
"""The listener without protection; its client is ``User:ANONYMOUS``."""
