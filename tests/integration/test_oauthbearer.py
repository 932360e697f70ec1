"""Clients that log in by access tokens of a provider over https: each client, nodes and commands; refusals, and keys that change."""

import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioKafkaTokenProvider
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import TopicAuthorizationFailedError
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokenProvider

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.conftest import eventually
from tests.integration.test_sasl import CLIENTS as WRITING
from tests.integration.test_sasl import LOADS, VALUES
from tests.models.access_tokens import AUDIENCE, ISSUER, Provider, wall_ms
from tests.models.certificates import PASSWORD, Authority
from tests.models.identity_provider import CLIENTS, IdentityProvider

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class OfKafkaPython(KafkaPythonTokenProvider):
    def __init__(self, make: Callable[[], str]) -> None:
        super().__init__()
        self.make = make

    def token(self) -> str:
        return self.make()


class OfAioKafka(AioKafkaTokenProvider):
    def __init__(self, make: Callable[[], str]) -> None:
        self.make = make

    async def token(self) -> str:
        return self.make()


class TokenLogIn:
    """How a client logs in, as each kind of client is told. librdkafka and Java get their tokens themselves."""

    def __init__(self, node: "TokenNode", protocol: str, user: str, make: Callable[[], str]) -> None:
        self.bootstrap, self.protocol, self.directory = node.addresses[protocol], protocol, node.directory
        self.provider, self.user, self.make = node.provider, user, make

    @property
    def kafka_python(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
            "ssl_cafile": str(self.directory / "ca.pem"),
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": OfKafkaPython(self.make),
        }

    @property
    def aiokafka(self) -> dict[str, Any]:
        options = self.kafka_python
        del options["ssl_cafile"]
        if self.protocol == "SASL_SSL":
            options["ssl_context"] = ssl.create_default_context(cafile=self.directory / "ca.pem")
        return options | {"sasl_oauth_token_provider": OfAioKafka(self.make)}

    @property
    def librdkafka(self) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol.lower(),
            "ssl.ca.location": str(self.directory / "ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": f"{self.provider.url}/token",
            "sasl.oauthbearer.client.id": self.user,
            "sasl.oauthbearer.client.secret": CLIENTS[self.user],
            "https.ca.location": str(self.directory / "ca.pem"),
        }

    def java_file(self) -> str:
        path = self.directory / f"{self.protocol}-{self.user}.properties"
        trust = f'ssl.truststore.location="{self.directory / "ca.p12"}" ssl.truststore.password="{PASSWORD}"'
        path.write_text(
            f"security.protocol={self.protocol}\nsasl.mechanism=OAUTHBEARER\n"
            f"sasl.jaas.config={PACKAGE}OAuthBearerLoginModule required {trust};\n"
            f"sasl.login.callback.handler.class={PACKAGE}OAuthBearerLoginCallbackHandler\n"
            f"sasl.oauthbearer.token.endpoint.url={self.provider.url}/token\n"
            f"sasl.oauthbearer.client.credentials.client.id={self.user}\n"
            f"sasl.oauthbearer.client.credentials.client.secret={CLIENTS[self.user]}\n"
            f"ssl.truststore.location={self.directory / 'ca.p12'}\nssl.truststore.password={PASSWORD}\n"
        )
        return str(path)


class TokenNode:
    """A provider, and a node with a listener of each protocol that believes its tokens; not started."""

    def __init__(self, directory: Path, *providers: Provider, **settings: str) -> None:
        self.directory = directory
        authority = Authority()
        authority.write_pem(directory / "ca.pem")
        authority.write_pkcs12(directory / "ca.p12")
        self.provider = IdentityProvider(authority, directory, *providers)
        ports = {protocol: free_port() for protocol in PROTOCOLS}
        self.addresses = {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()}
        listeners = ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items())
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{directory / "ca.pem"}"'
        self.process = Node(
            directory / "node",
            {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:0",
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required {trust};",
                "sasl.oauthbearer.jwks.endpoint.url": f"{self.provider.url}/keys",
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("CN=node").write_pem(directory / "node.pem")),
                **settings,
            },
            ports["SASL_PLAINTEXT"],
        )

    def __enter__(self) -> "TokenNode":
        self.provider.__enter__()
        self.process.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)
        self.provider.__exit__()

    def log_in(self, protocol: str = "SASL_PLAINTEXT", user: str = "alice", **claims: Any) -> TokenLogIn:
        return TokenLogIn(self, protocol, user, lambda: self.provider.token(user, **claims))

    def by(self, make: Callable[[], str]) -> TokenLogIn:
        return TokenLogIn(self, "SASL_PLAINTEXT", "alice", make)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenNode]:
    with TokenNode(tmp_path_factory.mktemp("tokens")) as made:
        made.provider.claims["carol"] = {"aud": "another service"}
        yield made


@pytest.mark.parametrize("client", sorted(WRITING.keys() - {"data source esp"}))  # which logs in by passwords only
def test_client_that_logs_in_writes_and_reads(node: TokenNode, client: str, topic: str) -> None:
    assert WRITING[client](node.log_in("SASL_SSL"), topic) == VALUES


@pytest.mark.kafka
def test_kafka_s_own_tools_get_tokens_and_log_in(node: TokenNode, kafka_tools: KafkaTools, topic: str) -> None:
    tools = kafka_tools.with_options(f"{ALLOWED}{node.provider.url}/token")
    log_in = node.log_in("SASL_SSL")
    server = ("--bootstrap-server", log_in.bootstrap, "--command-config", log_in.java_file())
    written = tools.run("console-producer", *server, "--topic", topic, stdin="a\nb\nc")
    assert "ERROR" not in written.stderr
    read = tools.run(
        *("console-consumer", *server, "--topic", topic, "--from-beginning"),
        *("--max-messages", "3", "--timeout-ms", "30000"),
    )
    assert read.stdout.split() == ["a", "b", "c"], read.stderr


# Refusals, as clients tell them


def is_refused(node: TokenNode, make: Callable[[], str]) -> bool:
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(bootstrap_timeout_ms=3000, **node.by(make).kafka_python)
    return True


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda provider: provider.providers[0].unsigned(), "its algorithm is 'none'"),
        (lambda provider: provider.providers[0].signed_by_public_key(), "its algorithm is 'HS256'"),
        (
            lambda _: Provider(kid="made-up", serial=1).token(wall_ms()),
            "the key 'made-up', which its provider does not have",
        ),
        (lambda _: Provider(serial=1).token(wall_ms()), "its signature is wrong"),
        (lambda provider: provider.token(iss="https://evil.example/"), "its issuer is 'https://evil.example/'"),
        (lambda provider: provider.token(exp=wall_ms() // 1000 - 10), "it expired 1"),
    ],
    ids=["none", "HS256", "made-up key", "foreign key", "another issuer", "expired"],
)
def test_token_that_proves_nothing_is_refused(node: TokenNode, make: Callable[[Any], str], words: str) -> None:
    assert is_refused(node, lambda: make(node.provider))
    eventually(lambda: words in node.process.output)


def test_librdkafka_tells_that_authentication_failed(node: TokenNode) -> None:
    told: list[KafkaError] = []
    client = AdminClient({**node.log_in(user="carol").librdkafka, "error_cb": told.append})

    def is_told() -> bool:
        client.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in told)

    eventually(is_told, 30)


def test_no_token_and_no_secret_is_logged(node: TokenNode) -> None:
    for secret in ("eyJ", *CLIENTS.values()):
        assert secret not in node.process.output


# Keys, groups and times


def test_keys_are_renewed_while_clients_log_in_and_the_provider_may_be_away(tmp_path: Path) -> None:
    first, second = Provider(), Provider("ES256", kid="key-2")
    with TokenNode(tmp_path, first, **{"sasl.oauthbearer.jwks.endpoint.refresh.ms": "1000"}) as made:
        provider = made.provider
        KafkaAdminClient(**made.log_in().kafka_python).close()
        provider.is_away = True
        eventually(lambda: "those that were fetched before stay in force" in made.process.output)
        KafkaAdminClient(**made.log_in().kafka_python).close()
        provider.is_away, provider.providers = False, (second,)
        eventually(lambda: "have come" in made.process.output, 20)
        KafkaAdminClient(**made.log_in().kafka_python).close()
        assert is_refused(made, lambda: first.token(wall_ms()))
        provider.redirects_to, provider.providers = f"{provider.url}/elsewhere", (first,)
        eventually(lambda: "redirects are not followed" in made.process.output)
        assert "/elsewhere" not in provider.asked
        KafkaAdminClient(**made.by(lambda: second.token(wall_ms())).kafka_python).close()


def test_provider_with_another_authority_is_not_believed(tmp_path: Path) -> None:
    made = TokenNode(tmp_path)
    Authority("CN=Another").write_pem(tmp_path / "ca.pem")
    with made:
        eventually(lambda: "cannot be fetched: no connection: no TLS connection" in made.process.output)
        assert not made.provider.asked
        assert is_refused(made, made.provider.token)


def test_rules_of_groups_count(tmp_path: Path) -> None:
    guarded = {
        "authorizer.class.name": AUTHORIZER,
        "super.users": "Group:admins",
        "sasl.oauthbearer.groups.claim.name": "groups",
    }
    with TokenNode(tmp_path, **guarded) as made:
        admin = KafkaAdminClient(**made.log_in(groups=["admins"]).kafka_python)
        admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
        admin.close()
        other = KafkaAdminClient(**made.log_in(groups=["staff"]).kafka_python)
        with pytest.raises(TopicAuthorizationFailedError):
            other.create_topics({"u": {"num_partitions": 1}})
        other.close()


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenNode]:
    with TokenNode(tmp_path_factory.mktemp("short"), **{"connections.max.reauth.ms": "3000"}) as made:
        yield made


def test_nothing_is_lost_while_log_ins_are_renewed_every_three_seconds(short_lived: TokenNode) -> None:
    """All clients at once, since each takes eleven seconds."""
    made: dict[str, tuple[int, int]] = {}
    admin = KafkaAdminClient(**short_lived.log_in().kafka_python)
    admin.create_topics({client: {"num_partitions": 1} for client in LOADS}, wait_for_metadata=True)
    admin.close()

    def load(client: str) -> None:
        made[client] = LOADS[client](short_lived.log_in(), client)

    threads = [threading.Thread(target=load, args=(client,)) for client in LOADS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(made) == set(LOADS)
    for client, (sent, read) in made.items():
        assert sent == read > 100, client


@pytest.mark.kafka
def test_java_clients_renew_their_log_ins_on_their_connections(short_lived: TokenNode, kafka_tools: KafkaTools) -> None:
    tools = kafka_tools.with_options(f"{ALLOWED}{short_lived.provider.url}/token")
    log_in = short_lived.log_in(user="carol")  # no other client is carol
    told = log_in.java_file()
    written = tools.run(
        *("producer-perf-test", "--bootstrap-server", log_in.bootstrap, "--command-config", told),
        *("--topic", "java", "--num-records", "800", "--record-size", "100", "--throughput", "100"),
    )
    assert "800 records sent" in written.stdout, written.stdout + written.stderr
    assert "disconnect" not in written.stderr.lower()
    assert "log-in as User:carol is over" not in short_lived.process.output


# Commands


def run_command(node: TokenNode, config: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "esp", *arguments],
        env=os.environ | {"ESP_BOOTSTRAP_SERVER": node.addresses["SASL_SSL"], "ESP_COMMAND_CONFIG": config},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "eyJ" not in done.stdout + done.stderr
    assert CLIENTS["alice"] not in done.stdout + done.stderr
    return done


@pytest.mark.parametrize("from_file", [True, False])
def test_commands_log_in(node: TokenNode, tmp_path: Path, from_file: bool) -> None:
    config = node.log_in("SASL_SSL").java_file()
    if from_file:
        (tmp_path / "token").write_text(node.provider.token() + "\n")
        ca = node.directory / "ca.pem"
        config = str(tmp_path / "client.properties")
        Path(config).write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
            f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file://{tmp_path / 'token'}\n"
        )
    for arguments, shown in (
        (("topics", "--list"), ""),
        (("brokers", "list"), "127.0.0.1"),
        (("brokers", "remove", "77"), "77"),
    ):
        done = run_command(node, config, *arguments)
        assert shown in done.stdout + done.stderr
        assert done.returncode == (1 if "77" in arguments else 0), done.stderr
        assert "let this command in" not in done.stderr


def test_command_whose_token_is_refused_is_told(tmp_path: Path) -> None:
    """At a node of its own: failures that came before would delay the answer."""
    with TokenNode(tmp_path) as made:
        made.provider.claims["carol"] = {"aud": "another service"}
        done = run_command(made, made.log_in("SASL_SSL", "carol").java_file(), "topics", "--list")
    assert done.returncode == 1
    assert "does not let this command in" in done.stderr
    assert "invalid_token" in done.stderr


# Nodes


@pytest.mark.timeout(300)
def test_nodes_log_in_at_one_another_by_tokens_that_live_for_seconds(
    make_cluster: ClusterFactory, tmp_path: Path
) -> None:
    authority = Authority()
    ca = authority.write_pem(tmp_path / "ca.pem")
    with IdentityProvider(authority, tmp_path) as provider:
        provider.life_s = 6
        trust = f'ssl.truststore.type="PEM" ssl.truststore.location="{ca}"'
        cluster = make_cluster(
            3,
            {
                "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
                "sasl.mechanism.controller.protocol": "OAUTHBEARER",
                "sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required {trust};",
                "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
                "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
                "sasl.oauthbearer.client.credentials.client.id": "broker",
                "sasl.oauthbearer.client.credentials.client.secret": CLIENTS["broker"],
                "sasl.oauthbearer.expected.issuer": ISSUER,
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.groups.claim.name": "groups",
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:broker;Group:admins",
            },
        )
        with cluster:
            for number, node in cluster.nodes.items():
                token = OfKafkaPython(lambda: provider.token("alice", groups=["admins"]))
                admin = KafkaAdminClient(
                    bootstrap_servers=node.bootstrap,
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="OAUTHBEARER",
                    sasl_oauth_token_provider=token,
                )
                admin.create_topics(
                    {f"t-{number}": {"num_partitions": 3, "replication_factor": 3}}, wait_for_metadata=True
                )
                admin.close()
            asked = provider.asked.count("/token")
            eventually(lambda: provider.asked.count("/token") > asked + 6, 60)
            assert "cannot log in" not in cluster.output
            assert "is over" not in cluster.output
        assert "eyJ" not in cluster.output
        assert CLIENTS["broker"] not in cluster.output
