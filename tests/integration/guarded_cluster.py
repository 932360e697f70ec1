"""Three nodes that serve clients by certificates and log-ins of every mechanism, and each kind of client's settings for each way in."""

import base64
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aiokafka.abc import AbstractTokenProvider as AioKafkaTokenProvider
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider
from kio.schema.create_delegation_token.v2.request import CreateDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.messages import metadata
from tests.integration.wire import Wire
from tests.models.access_tokens import AUDIENCE, ISSUER
from tests.models.certificates import Authority
from tests.models.identity_provider import CLIENTS, IdentityProvider

CERTIFICATES: Final = ("SSL", "MUTUAL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAYS: Final = (*CERTIFICATES, *MECHANISMS)
"""The ways in: over TLS without a certificate, with one, and by a log-in over TLS."""
TOKEN: Final = "TOKEN"
"""And by a delegation token, as Java's clients alone can."""

OPEN, CLOSED = "open", "closed"
"""Clients may do everything with topics whose names begin with the first word; nothing with the topic of the second."""

PASSWORD: Final = "alice's password"
PACKAGE: Final = "org.apache.kafka.common.security."


class _OfKafkaPython(KafkaPythonTokenProvider):
    def __init__(self, provider: IdentityProvider, user: str) -> None:
        super().__init__()
        self._provider, self._user = provider, user

    def token(self) -> str:
        return self._provider.token(self._user)


class _OfAioKafka(AioKafkaTokenProvider):
    def __init__(self, provider: IdentityProvider, user: str) -> None:
        self._provider, self._user = provider, user

    async def token(self) -> str:
        return self._provider.token(self._user)


class GuardedCluster:
    """The cluster, its authority and its identity provider; a context manager. Log-ins count for three seconds.

    Alice is the user of every way but the one without a certificate, whose principal is ``User:ANONYMOUS``. Settings with ``is_wrong`` are
    those of a client with another authority's certificate, a wrong password, or a token for another service.

    Args:
        directory: for the nodes and all files.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        authority = Authority()
        self.trusted = authority.write_pem(directory / "ca.pem")
        for name in ("alice", "admin", "node"):
            hosts = {} if name == "node" else {"hosts": ()}
            authority.issue(f"CN={name}", **hosts).write_pem(directory / f"{name}.pem")
        Authority("CN=Another").issue("CN=alice", hosts=()).write_pem(directory / "stranger.pem")
        self.provider = IdentityProvider(authority, directory)
        self.provider.claims["carol"] = {"aud": "another service"}
        self.cluster = Cluster(directory / "nodes", 3, self._settings())
        self._addresses: dict[str, list[str]] = {name: [] for name in CERTIFICATES}
        for node in self.cluster.nodes.values():
            for name, addresses in self._addresses.items():
                address = f"{node.host}:{free_port()}"
                addresses.append(address)
                for setting in ("listeners", "advertised.listeners"):
                    node.settings[setting] += f",{name}://{address}"

    def _settings(self) -> dict[str, str]:
        login = "listener.name.plaintext"
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.trusted}"'
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,SSL:SSL,MUTUAL:SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "MUTUAL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.directory / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.controller.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{login}.plain.sasl.jaas.config": f'{PACKAGE}plain.PlainLoginModule required user_alice="{PASSWORD}";',
            f"{login}.oauthbearer.sasl.jaas.config": f"{PACKAGE}oauthbearer.OAuthBearerLoginModule required {trust};",
            "sasl.oauthbearer.jwks.endpoint.url": f"{self.provider.url}/keys",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "delegation.token.secret.key": "the secret of tokens",
            "group.initial.rebalance.delay.ms": "0",
            "connections.max.reauth.ms": "3000",
            "connection.failed.authentication.delay.ms": "0",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:node;User:admin",
        }

    def __enter__(self) -> Self:
        self.provider.__enter__()
        try:
            scram = (each for each in MECHANISMS if each.startswith("SCRAM"))
            self.cluster.format(*(f'--add-scram={each}=[name=alice,password="{PASSWORD}"]' for each in scram))
            self.cluster.__enter__()
            self.admin = AdminClient(self.librdkafka("MUTUAL", user="admin"))
            self._allow()
            self._token = self._make_token()
            self.admin.create_topics([NewTopic(CLOSED, 1, 3)])[CLOSED].result(60)
        except BaseException:
            self.cluster.close()
            self.provider.__exit__()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.cluster.__exit__(kind, error, trace)
        finally:
            self.provider.__exit__()

    def _allow(self) -> None:
        def rule(kind: ResourceType, name: str, principal: str, pattern: ResourcePatternType) -> AclBinding:
            return AclBinding(kind, name, pattern, principal, "*", AclOperation.ALL, AclPermissionType.ALLOW)

        rules = [
            rule(kind, name, principal, pattern)
            for principal in ("User:alice", "User:ANONYMOUS")
            for kind, name, pattern in (
                (ResourceType.TOPIC, OPEN, ResourcePatternType.PREFIXED),
                (ResourceType.GROUP, "*", ResourcePatternType.LITERAL),
            )
        ]
        for result in self.admin.create_acls(rules).values():
            result.result(30)

    @contextmanager
    def _wire(self, node: NodeProcess) -> Iterator[Wire]:
        """A connection of alice's to a node."""
        with Wire(node, 60, tls=ssl.create_default_context(cafile=self.trusted)) as wire:
            wire.log_in("alice", PASSWORD)
            yield wire

    def _make_token(self) -> tuple[str, str]:
        """The id and the password of a token of alice's."""
        with self._wire(self.cluster.nodes[1]) as wire:
            life = i64Timedelta.parse(timedelta(hours=1))
            made = wire.call(CreateDelegationTokenRequest(renewers=(), max_lifetime=life))
        assert not made.error_code
        return made.token_id, base64.b64encode(made.hmac).decode()

    def make_topics(self, names: list[str], leader: int) -> None:
        """Make topics of one partition each, all with the same leader, and wait until every node knows them.

        A client that is told by one node of a topic and by the next one of none has the group assign its partitions anew.
        """
        replicas = [leader, *({1, 2, 3} - {leader})]
        settings = {"min.insync.replicas": "2"}
        made = [NewTopic(name, 1, replica_assignment=[replicas], config=settings) for name in names]
        for result in self.admin.create_topics(made).values():
            result.result(60)
        for node in self.cluster.nodes.values():
            eventually(partial(self._knows, node, names), 60)

    def _knows(self, node: NodeProcess, topics: list[str]) -> bool:
        with self._wire(node) as wire:
            return not any(topic.error_code for topic in wire.call(metadata(*topics)).topics)

    def wait_until_in_sync(self) -> None:
        """Wait until every partition, those of groups' offsets too, has all its replicas."""

        def is_in_sync() -> bool:
            topics = self.admin.list_topics(timeout=30).topics.values()
            return all(len(each.isrs) == len(each.replicas) for topic in topics for each in topic.partitions.values())

        eventually(is_in_sync, 120)

    # --- what clients are told ---------------------------------------------------------------------------------------------------

    def bootstrap(self, way: str) -> str:
        """The addresses of the listener for a way in."""
        return ",".join(self._addresses[way]) if way in self._addresses else self.cluster.bootstrap

    def _certificate(self, user: str, is_wrong: bool) -> str:
        return str(self.directory / f"{'stranger' if is_wrong else user}.pem")

    def librdkafka(self, way: str, *, user: str = "alice", is_wrong: bool = False) -> dict[str, Any]:
        """Settings of confluent-kafka and kcat."""
        told = {
            "bootstrap.servers": self.bootstrap(way),
            "security.protocol": "ssl" if way in CERTIFICATES else "sasl_ssl",
            "ssl.ca.location": str(self.trusted),
            "log_level": 0,
        }
        if way == "MUTUAL":
            certificate = self._certificate(user, is_wrong)
            return told | {"ssl.certificate.location": certificate, "ssl.key.location": certificate}
        if way == "OAUTHBEARER":
            name = "carol" if is_wrong else user
            return told | {
                "sasl.mechanism": way,
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": f"{self.provider.url}/token",
                "sasl.oauthbearer.client.id": name,
                "sasl.oauthbearer.client.secret": CLIENTS[name],
                "https.ca.location": str(self.trusted),
            }
        if way in MECHANISMS:
            password = "wrong" if is_wrong else PASSWORD
            return told | {"sasl.mechanism": way, "sasl.username": user, "sasl.password": password}
        return told

    def kafka_python(self, way: str, *, is_wrong: bool = False) -> dict[str, Any]:
        """Settings of kafka-python."""
        told: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap(way),
            "security_protocol": "SSL" if way in CERTIFICATES else "SASL_SSL",
            "ssl_cafile": str(self.trusted),
        }
        if way == "MUTUAL":
            certificate = self._certificate("alice", is_wrong)
            return told | {"ssl_certfile": certificate, "ssl_keyfile": certificate}
        if way == "OAUTHBEARER":
            provider = _OfKafkaPython(self.provider, "carol" if is_wrong else "alice")
            return told | {"sasl_mechanism": way, "sasl_oauth_token_provider": provider}
        if way in MECHANISMS:
            password = "wrong" if is_wrong else PASSWORD
            return told | {"sasl_mechanism": way, "sasl_plain_username": "alice", "sasl_plain_password": password}
        return told

    def aiokafka(self, way: str, *, is_wrong: bool = False) -> dict[str, Any]:
        """Settings of aiokafka: those of kafka-python, but for its contexts and its tokens."""
        told = self.kafka_python(way, is_wrong=is_wrong)
        context = ssl.create_default_context(cafile=told.pop("ssl_cafile"))
        if "ssl_certfile" in told:
            context.load_cert_chain(told.pop("ssl_certfile"))
            del told["ssl_keyfile"]
        if way == "OAUTHBEARER":
            told["sasl_oauth_token_provider"] = _OfAioKafka(self.provider, "carol" if is_wrong else "alice")
        return told | {"ssl_context": context}

    def java(self, way: str, *, is_wrong: bool = False) -> str:
        """Settings of Java's clients, as lines of a file."""
        told = {
            "bootstrap.servers": self.bootstrap(way),
            "security.protocol": "SSL" if way in CERTIFICATES else "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }
        if way == "MUTUAL":
            told |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self._certificate("alice", is_wrong)}
        elif way == "OAUTHBEARER":
            name = "carol" if is_wrong else "alice"
            trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.trusted}"'
            package = f"{PACKAGE}oauthbearer."
            told |= {
                "sasl.mechanism": way,
                "sasl.jaas.config": f"{package}OAuthBearerLoginModule required {trust};",
                "sasl.login.callback.handler.class": f"{package}OAuthBearerLoginCallbackHandler",
                "sasl.oauthbearer.token.endpoint.url": f"{self.provider.url}/token",
                "sasl.oauthbearer.client.credentials.client.id": name,
                "sasl.oauthbearer.client.credentials.client.secret": CLIENTS[name],
            }
        elif way == TOKEN:
            user, password = self._token[0], "wrong" if is_wrong else self._token[1]
            told["sasl.mechanism"] = "SCRAM-SHA-256"
            told["sasl.jaas.config"] = (
                f'{PACKAGE}scram.ScramLoginModule required username="{user}" password="{password}" tokenauth="true";'
            )
        elif way in MECHANISMS:
            module = "plain.PlainLoginModule" if way == "PLAIN" else "scram.ScramLoginModule"
            password = "wrong" if is_wrong else PASSWORD
            told["sasl.mechanism"] = way
            told["sasl.jaas.config"] = f'{PACKAGE}{module} required username="alice" password="{password}";'
        return "".join(f"{name}={value}\n" for name, value in told.items())
