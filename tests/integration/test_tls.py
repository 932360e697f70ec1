"""Clients over TLS: each writes and reads with a certificate of its own, on one node and on three; and what it sees when it is refused."""

import asyncio
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPSConnection
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)
from cryptography import x509
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import TopicAuthorizationFailedError

from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeError, NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import ClusterFactory, NodeFactory
from tests.integration.conftest import eventually
from tests.integration.librdkafka_reads import read_values
from tests.integration.messages import api_versions
from tests.integration.test_metrics import scrape
from tests.integration.wire import Wire
from tests.models.certificates import PASSWORD, Authority

ALTER_BROKER = ("--alter", "--entity-type", "brokers", "--entity-name", "1")
VALUES = [b"%d " % number * 300 for number in range(300)]


class Identities:
    """An authority's files: those of nodes, of a client, and how each kind of client is told of them."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority()
        self.directory = directory
        self.trusted = self.authority.write_pem(directory / "ca.pem")
        self.trusted_java = self.authority.write_pkcs12(directory / "ca.p12")
        self.node = self.authority.issue("CN=node,O=Org").write_pem(directory / "node.pem")
        client = self.authority.issue("CN=carol,OU=Data", hosts=())
        self.client = client.write_pem(directory / "client.pem")
        self.client_java = client.write_pkcs12(directory / "client.p12")

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a node: all its listeners speak TLS with certificates on both sides, whatever their names say."""
        return {
            "group.initial.rebalance.delay.ms": "0",
            "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
            "ssl.client.auth": "required",
        }

    @property
    def kafka_python(self) -> dict[str, str]:
        client = str(self.client)
        return {
            "security_protocol": "SSL",
            "ssl_cafile": str(self.trusted),
            "ssl_certfile": client,
            "ssl_keyfile": client,
        }

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.trusted)
        context.load_cert_chain(self.client)
        return context

    @property
    def librdkafka(self) -> dict[str, str]:
        return {
            "security.protocol": "ssl",
            "ssl.ca.location": str(self.trusted),
            "ssl.certificate.location": str(self.client),
            "ssl.key.location": str(self.client),
        }

    def java_file(self, *, with_certificate: bool = True) -> str:
        lines = {
            "security.protocol": "SSL",
            "ssl.truststore.location": str(self.trusted_java),
            "ssl.truststore.password": PASSWORD,
        }
        if with_certificate:
            lines |= {
                "ssl.keystore.type": "PKCS12",
                "ssl.keystore.location": str(self.client_java),
                "ssl.keystore.password": PASSWORD,
            }
        path = self.directory / f"client-{with_certificate}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        return str(path)


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node_settings(identities: Identities) -> dict[str, str]:
    return identities.settings


def make_topic(bootstrap: str, identities: Identities, topic: str, **shape: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap, **identities.kafka_python)
    admin.create_topics({topic: {"num_partitions": 1, **shape}}, wait_for_metadata=True)
    admin.close()


def write_and_read_with_kafka_python(bootstrap: str, identities: Identities, topic: str) -> list[bytes]:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all", **identities.kafka_python)
    for value in VALUES:
        producer.send(topic, value)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **identities.kafka_python,
    )
    read = [next(consumer).value for _ in VALUES]
    consumer.close()
    return read


def write_and_read_with_aiokafka(bootstrap: str, identities: Identities, topic: str) -> list[bytes]:
    async def body() -> list[bytes]:
        options = {"bootstrap_servers": bootstrap, "security_protocol": "SSL", "ssl_context": identities.context}
        async with AIOKafkaProducer(**options, acks="all") as producer:
            for sent in [await producer.send(topic, value) for value in VALUES]:
                await sent
        async with AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(body(), 60))


def write_and_read_with_librdkafka(bootstrap: str, identities: Identities, topic: str) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, **identities.librdkafka})
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    group = {"group.id": f"group-of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **identities.librdkafka, **group})
    consumer.subscribe([topic])
    read = read_values(consumer, len(VALUES))
    consumer.close()
    return read


CLIENTS = [write_and_read_with_kafka_python, write_and_read_with_aiokafka, write_and_read_with_librdkafka]


@pytest.mark.parametrize("write_and_read", CLIENTS, ids=["kafka-python", "aiokafka", "librdkafka"])
def test_a_client_with_a_certificate_writes_and_reads(
    node: NodeProcess, identities: Identities, topic: str, write_and_read
) -> None:
    make_topic(node.bootstrap, identities, topic)
    assert write_and_read(node.bootstrap, identities, topic) == VALUES


class WithoutCertificate(Identities):
    """Clients that show no certificate."""

    @property
    def kafka_python(self) -> dict[str, str]:
        return {"security_protocol": "SSL", "ssl_cafile": str(self.trusted)}

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.trusted)

    @property
    def librdkafka(self) -> dict[str, str]:
        return {"security.protocol": "ssl", "ssl.ca.location": str(self.trusted)}


@pytest.mark.kafka
def test_clients_need_no_certificate_where_none_is_asked_for(
    fresh_node: NodeFactory, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    identities = WithoutCertificate(tmp_path)
    node = fresh_node(identities.settings | {"ssl.client.auth": "none"})
    for number, write_and_read in enumerate(CLIENTS):
        make_topic(node.bootstrap, identities, f"t{number}")
        assert write_and_read(node.bootstrap, identities, f"t{number}") == VALUES
    told = ("--command-config", identities.java_file(with_certificate=False), "--bootstrap-server", node.bootstrap)
    written = kafka_tools.run("console-producer", *told, "--topic", "t0", stdin="from Java")
    assert "ERROR" not in written.stderr
    read = kafka_tools.run(
        *("console-consumer", *told, "--topic", "t0", "--from-beginning"),
        *("--max-messages", str(len(VALUES) + 1), "--timeout-ms", "30000"),
    )
    assert read.stdout.splitlines()[-1] == "from Java", read.stderr


@pytest.mark.kafka
def test_kafka_s_own_tools_write_and_read(
    node: NodeProcess, identities: Identities, kafka_tools: KafkaTools, topic: str
) -> None:
    told = identities.java_file()
    server, topic = ("--bootstrap-server", node.bootstrap), topic.replace("_", "-")
    created = kafka_tools.run("topics", *server, "--command-config", told, "--create", "--topic", topic)
    assert "Created topic" in created.stdout, created.stdout + created.stderr
    lines = [f"line {number}" for number in range(1_000)]
    written = kafka_tools.run(
        "console-producer", *server, "--command-config", told, "--topic", topic, stdin="\n".join(lines)
    )
    assert written.returncode == 0, written.stderr
    assert "ERROR" not in written.stderr
    read = kafka_tools.run(
        "console-consumer",
        *server,
        *("--command-config", told, "--topic", topic, "--from-beginning", "--max-messages", "1000"),
        *("--timeout-ms", "30000"),
    )
    assert read.stdout.split("\n")[:-1] == lines, read.stderr


@pytest.mark.kafka
def test_a_java_client_without_a_certificate_is_told_so_and_the_node_logs_who_it_was(
    node: NodeProcess, identities: Identities, kafka_tools: KafkaTools
) -> None:
    told = identities.java_file(with_certificate=False)
    done = kafka_tools.run("topics", "--bootstrap-server", node.bootstrap, "--command-config", told, "--list")
    assert "failed authentication" in done.stderr
    eventually(lambda: "it showed no certificate, which ssl.client.auth=required asks for" in node.output)


@pytest.mark.kafka
def test_a_java_client_without_encryption_is_turned_away(
    node: NodeProcess, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    (tmp_path / "short").write_text("default.api.timeout.ms=3000\nrequest.timeout.ms=2000\n")
    server = ("--bootstrap-server", node.bootstrap, "--command-config", str(tmp_path / "short"))
    assert kafka_tools.run("topics", *server, "--list").returncode != 0
    eventually(lambda: "it sent plaintext to a port that speaks TLS" in node.output)


@pytest.fixture(scope="module")
def secure_cluster(tmp_path_factory: pytest.TempPathFactory, identities: Identities) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster") / "nodes", 3, identities.settings) as cluster:
        yield cluster


@pytest.mark.parametrize("write_and_read", CLIENTS, ids=["kafka-python", "aiokafka", "librdkafka"])
def test_three_nodes_that_speak_tls_with_one_another_replicate(
    secure_cluster: Cluster, identities: Identities, topic: str, write_and_read
) -> None:
    make_topic(secure_cluster.bootstrap, identities, topic, num_partitions=1, replication_factor=3)
    assert write_and_read(secure_cluster.bootstrap, identities, topic) == VALUES


@pytest.mark.kafka
def test_java_tools_see_three_nodes_in_sync(
    secure_cluster: Cluster, identities: Identities, kafka_tools: KafkaTools
) -> None:
    make_topic(secure_cluster.bootstrap, identities, "seen", num_partitions=3, replication_factor=3)
    server = ("--bootstrap-server", secure_cluster.bootstrap, "--command-config", identities.java_file())

    def are_in_sync() -> bool:
        told = kafka_tools.run("topics", *server, "--describe", "--topic", "seen").stdout
        lines = [line for line in told.splitlines() if "Isr:" in line]
        isrs = [line.split("Isr:")[1].split("\t")[0].strip() for line in lines]
        return [sorted(isr.split(",")) for isr in isrs] == [["1", "2", "3"]] * 3

    eventually(are_in_sync, 60)


def test_a_leader_that_is_killed_is_replaced_and_nothing_is_lost(
    make_cluster: ClusterFactory, identities: Identities
) -> None:
    cluster = make_cluster(3, identities.settings)
    make_topic(cluster.bootstrap, identities, "t", num_partitions=1, replication_factor=3)
    # kafka-python 3.0.12 now and then calls a killed leader again and again, and does not look for the new one
    producer = Producer(
        identities.librdkafka | {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 0}
    )
    for value in VALUES[:150]:
        producer.produce("t", value)
        assert producer.flush(30) == 0
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap, **identities.kafka_python)
    leader = admin.describe_topics(["t"])[0]["partitions"][0]["leader_id"]
    admin.close()
    cluster.nodes[leader].kill()
    for value in VALUES[150:]:
        producer.produce("t", value)
        assert producer.flush(30) == 0
    consumer = KafkaConsumer(
        "t",
        bootstrap_servers=cluster.bootstrap,
        auto_offset_reset="earliest",
        consumer_timeout_ms=30_000,
        **identities.kafka_python,
    )
    assert [next(consumer).value for _ in VALUES] == VALUES
    consumer.close()


def test_rules_of_access_are_about_the_names_in_certificates(
    fresh_node: NodeFactory, identities: Identities, tmp_path: Path
) -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=node,O=Org;User:carol",
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),OU=Data$/$1/,DEFAULT",
    }
    node = fresh_node(identities.settings | rules)
    make_topic(node.bootstrap, identities, "t")
    dave = str(identities.authority.issue("CN=dave,OU=Data").write_pem(tmp_path / "dave.pem"))
    options = identities.kafka_python | {"ssl_certfile": dave, "ssl_keyfile": dave}
    stranger = KafkaAdminClient(bootstrap_servers=node.bootstrap, **options)
    assert stranger.list_topics() == []
    stranger.close()
    admin = KafkaAdminClient(bootstrap_servers=node.bootstrap, **identities.kafka_python)
    assert [topic["name"] if isinstance(topic, dict) else topic for topic in admin.list_topics()] == ["t"]
    admin.close()


def test_three_nodes_that_serve_by_rules_only_know_one_another_and_replicate(
    make_cluster: ClusterFactory, identities: Identities, tmp_path: Path
) -> None:
    rules = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=node,O=Org;User:CN=carol,OU=Data",
    }
    cluster = make_cluster(3, identities.settings | rules)
    make_topic(cluster.bootstrap, identities, "t", num_partitions=1, replication_factor=3)
    dave = str(identities.authority.issue("CN=dave", hosts=()).write_pem(tmp_path / "dave.pem"))
    options = identities.librdkafka | {"ssl.certificate.location": dave, "ssl.key.location": dave}
    said: list[str] = []

    def write() -> str:
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.timeout.ms": 20_000, **options})
        producer.produce("t", b"x", on_delivery=lambda error, _message: said.append(str(error)))
        assert producer.flush(30) == 0
        return said[-1]

    assert "Topic authorization failed" in write()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, **identities.librdkafka})
    rule = AclBinding(
        ResourceType.TOPIC,
        "t",
        ResourcePatternType.LITERAL,
        "User:CN=dave",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    may_create = AclBinding(
        ResourceType.TOPIC,
        "dave-",
        ResourcePatternType.PREFIXED,
        "User:CN=dave",
        "*",
        AclOperation.CREATE,
        AclPermissionType.ALLOW,
    )
    for created in admin.create_acls([rule, may_create]).values():
        created.result(30)
    eventually(lambda: write() == "None", 60)
    for number, node in cluster.nodes.items():  # one is the active controller, the others ask it for their client
        dave_admin = KafkaAdminClient(
            bootstrap_servers=node.bootstrap,
            **(identities.kafka_python | {"ssl_certfile": dave, "ssl_keyfile": dave}),
        )
        dave_admin.create_topics({f"dave-{number}": {"num_partitions": 1, "replication_factor": 1}})
        with pytest.raises(TopicAuthorizationFailedError):
            dave_admin.create_topics({f"other-{number}": {"num_partitions": 1, "replication_factor": 1}})
        dave_admin.close()
    leader = admin.list_topics("t", 30).topics["t"].partitions[0].leader
    cluster.nodes[leader].kill()
    eventually(lambda: write() == "None", 60)


def served_serial(node: NodeProcess, identities: Identities) -> int:
    """The serial number of the certificate that a new connection is shown."""
    with (
        socket.create_connection((node.host, node.port), 10) as plain,
        identities.context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        shown = client.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown or b"").serial_number


def test_a_renewed_certificate_is_taken_while_connections_go_on_and_a_bad_one_is_refused(
    fresh_node: NodeFactory, identities: Identities, tmp_path: Path
) -> None:
    path = tmp_path / "own.pem"
    identities.authority.issue("CN=node").write_pem(path)
    node = fresh_node(identities.settings | {"ssl.keystore.location": str(path)})
    make_topic(node.bootstrap, identities, "t")
    producer = KafkaProducer(bootstrap_servers=node.bootstrap, **identities.kafka_python)
    producer.send("t", b"before").get(30)
    path.write_text("not yet")
    eventually(lambda: "the changed files are refused" in node.output, 30)
    assert served_serial(node, identities)
    renewed = identities.authority.issue("CN=node")
    renewed.write_pem(path)
    eventually(lambda: served_serial(node, identities) == renewed.certificate.serial_number, 30)
    assert producer.send("t", b"after").get(30).offset == 1
    producer.close()


def test_a_renewed_certificate_is_in_force_when_its_location_is_set_again_as_administrators_of_kafka_do_it(
    fresh_node: NodeFactory, identities: Identities, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    path = tmp_path / "own.pem"
    identities.authority.issue("CN=node").write_pem(path)
    node = fresh_node(identities.settings | {"ssl.keystore.location": str(path)})
    setting = "listener.name.plaintext.ssl.keystore.location"
    renewed = identities.authority.issue("CN=node")
    renewed.write_pem(path)
    server = ("--bootstrap-server", node.bootstrap, "--command-config", identities.java_file())
    done = kafka_tools.run("configs", *server, *ALTER_BROKER, "--add-config", f"{setting}={path}")
    assert "Completed updating config" in done.stdout, done.stdout + done.stderr
    assert served_serial(node, identities) == renewed.certificate.serial_number

    identities.authority.issue("CN=other").write_pem(path)
    entry = ConfigEntry(setting, str(path), incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": node.bootstrap, **identities.librdkafka})
    with pytest.raises(KafkaException, match="its certificate is CN=other, but the present one is CN=node"):
        admin.incremental_alter_configs([change])[change].result(30)
    assert served_serial(node, identities) == renewed.certificate.serial_number


def connect_as(node: NodeProcess, authority: Authority, path: Path, ends: datetime | None = None) -> Wire:
    """A connection of ``carol``, who is proved by a certificate of her own; the node has answered her."""
    authority.issue("CN=carol", ends=ends).write_pem(path)
    context = ssl.create_default_context(cadata=authority.pem)
    context.load_cert_chain(path)
    wire = Wire(node, 30, tls=context)
    wire.call(api_versions())
    return wire


def test_metrics_over_tls_are_told_to_holders_of_a_certificate(fresh_node: NodeFactory, identities: Identities) -> None:
    port = free_port()
    fresh_node(identities.settings | {"metrics.listener": f"SSL://127.0.0.1:{port}"})
    connection = HTTPSConnection("127.0.0.1", port, timeout=20, context=identities.context)
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    assert (answer.status, b"esp_certificate_expiry_timestamp_seconds" in answer.read()) == (200, True)
    connection.close()
    stranger = HTTPSConnection(
        "127.0.0.1", port, timeout=20, context=ssl.create_default_context(cafile=identities.trusted)
    )

    def ask() -> None:
        stranger.request("GET", "/metrics")
        stranger.getresponse()

    with pytest.raises((ssl.SSLError, ConnectionError)):
        ask()
    stranger.close()


def is_ended(wire: Wire) -> bool:
    """True when the node has ended the connection; it waits for that."""
    try:
        return wire.socket.recv(1) == b""
    except (ConnectionError, ssl.SSLEOFError):
        return True


def test_connections_end_with_the_certificate_of_their_client(
    fresh_node: NodeFactory, identities: Identities, tmp_path: Path
) -> None:
    metrics = free_port()
    node = fresh_node(identities.settings | {"metrics.listener": f"127.0.0.1:{metrics}"})
    soon = datetime.now(UTC) + timedelta(seconds=5)
    with (
        connect_as(node, identities.authority, tmp_path / "later.pem") as later,
        connect_as(node, identities.authority, tmp_path / "soon.pem", soon) as client,
    ):
        assert is_ended(client)
        assert datetime.now(UTC) >= soon
        later.call(api_versions())
    eventually(lambda: "a certificate of its chain has ended" in node.output, 10)
    with socket.create_connection((node.host, node.port), 10) as plain:
        plain.sendall(b"\0\0\0\1plaintext")
        assert plain.recv(100)[:1] in (b"", b"\x15"), "closed, or an alert before that"
    told = scrape(metrics)
    assert told["esp_tls_connections_ended_total", "plaintext"] == 1
    assert told["esp_tls_handshake_failures_total", "plaintext"] == 1
    ends = x509.load_pem_x509_certificate(identities.node.read_bytes()).not_valid_after_utc
    assert told["esp_certificate_expiry_timestamp_seconds", "plaintext"] == ends.timestamp()


def test_connections_of_a_client_that_is_revoked_end_and_others_go_on(
    fresh_node: NodeFactory, identities: Identities, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    authority = Authority()
    own = authority.issue("CN=node").write_pem(tmp_path / "own.pem")
    trusted.write_text(authority.pem)
    settings = {"ssl.keystore.location": str(own), "ssl.truststore.location": str(trusted)}
    metrics = free_port()
    node = fresh_node(identities.settings | settings | {"metrics.listener": f"127.0.0.1:{metrics}"})
    lists_end = ("esp_revocation_list_expiry_timestamp_seconds", "plaintext")
    assert lists_end not in scrape(metrics)
    with (
        connect_as(node, authority, tmp_path / "good.pem") as good,
        connect_as(node, authority, tmp_path / "bad.pem") as bad,
    ):
        revoked = x509.load_pem_x509_certificate((tmp_path / "bad.pem").read_bytes())
        authority.revoked.append(revoked)
        trusted.write_text(authority.pem + authority.revocations_pem())
        assert is_ended(bad)
        good.call(api_versions())
    eventually(lambda: "it is trusted no longer: certificate revoked" in node.output, 10)
    assert 86_000 < scrape(metrics)[lists_end] - time.time() <= 86_400


def test_a_node_with_bad_material_does_not_start_and_says_what_is_to_be_done(
    fresh_node: NodeFactory, identities: Identities, tmp_path: Path
) -> None:
    jks = tmp_path / "node.jks"
    jks.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    settings = identities.settings | {"ssl.keystore.location": str(jks), "ssl.keystore.type": "JKS"}
    with pytest.raises(NodeError, match="keytool -importkeystore"):
        fresh_node(settings)


def test_a_node_of_another_authority_is_not_let_in(
    make_cluster: ClusterFactory, identities: Identities, tmp_path: Path
) -> None:
    strange = Authority("CN=Strange CA")
    node = strange.issue().write_pem(tmp_path / "node.pem")
    own = {"ssl.keystore.location": str(node), "ssl.truststore.location": str(strange.write_pem(tmp_path / "ca.pem"))}
    cluster = make_cluster(3, identities.settings, node_settings={3: own}, start=False)
    cluster.format()
    for each in cluster.nodes.values():
        each.launch()
    cluster.nodes[1].wait_until_ready()
    cluster.nodes[2].wait_until_ready()
    eventually(lambda: "its certificate is refused" in cluster.nodes[1].output + cluster.nodes[2].output, 30)
    assert not cluster.nodes[3].is_ready


def test_the_certificates_of_kafka_s_keytool_are_taken(fresh_node: NodeFactory, tmp_path: Path) -> None:
    store = tmp_path / "keytool.p12"
    subprocess.run(
        [
            *("keytool", "-genkeypair", "-keystore", str(store), "-storepass", PASSWORD, "-keyalg", "EC"),
            *("-groupname", "secp256r1", "-dname", "CN=node", "-ext", "san=ip:127.0.0.1", "-alias", "a"),
        ],
        check=True,
        capture_output=True,
    )
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "trusted.pem"),
    }
    exported = subprocess.run(
        ["keytool", "-exportcert", "-rfc", "-keystore", str(store), "-storepass", PASSWORD, "-alias", "a"],
        check=True,
        capture_output=True,
    )
    (tmp_path / "trusted.pem").write_bytes(exported.stdout)
    node = fresh_node(settings)
    context = ssl.create_default_context(cadata=exported.stdout.decode())
    with (
        socket.create_connection((node.host, node.port), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as client,
    ):
        assert client.version() == "TLSv1.3"
