"""Nodes that are secure by one option, and the settings of clients that come with them, used as they are."""

import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.helpers import create_ssl_context
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from esp.testing.kafka_tools import KafkaTools
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.secure_nodes import Secure, done, secure_node

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    directory = tmp_path_factory.mktemp("secure")
    port = free_port()
    made = Secure(
        directory,
        directory / "c" / "security",
        port,
        *("cluster", "start", "--secure", "--nodes", "3", "--dir", "c", "--port", str(port)),
    )
    try:
        yield made.start()
    finally:
        made.end()


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Secure]:
    made = secure_node(tmp_path, free_port())
    try:
        yield made
    finally:
        made.end()


def test_the_administrator_works_with_every_kind_of_client(cluster: Secure) -> None:
    done(cluster.run("topics", "--create", "--topic", "t", "--partitions", "3"))
    producer = KafkaProducer(acks="all", **cluster.kafka_python())
    producer.send("t", b"kafka-python").get(30)
    producer.close()
    other = Producer(cluster.librdkafka())
    other.produce("t", b"librdkafka")
    assert other.flush(30) == 0
    done(cluster.run("produce", "--topic", "t", stdin="esp\n"))
    consumer = KafkaConsumer("t", auto_offset_reset="earliest", consumer_timeout_ms=30_000, **cluster.kafka_python())
    assert {next(consumer).value for _ in range(3)} == {b"kafka-python", b"librdkafka", b"esp"}
    consumer.close()
    reader = Consumer(cluster.librdkafka() | {"group.id": "g", "auto.offset.reset": "earliest"})
    reader.subscribe(["t"])
    seen: set[bytes] = set()

    def read() -> bool:
        message = reader.poll(1)
        if message is not None and message.error() is None:
            seen.add(message.value())
        return len(seen) == 3

    eventually(read, 60)
    reader.close()


async def test_aiokafka_takes_the_settings_of_kafka_python(cluster: Secure) -> None:
    settings = cluster.kafka_python()
    context = create_ssl_context(cafile=settings.pop("ssl_cafile"))
    done(cluster.run("topics", "--create", "--topic", "a"))
    producer = AIOKafkaProducer(acks="all", ssl_context=context, **settings)
    await producer.start()
    try:
        assert (await producer.send_and_wait("a", b"x")).offset == 0
    finally:
        await producer.stop()


@pytest.mark.kafka
def test_kafka_s_tools_take_the_settings_of_java(cluster: Secure, kafka_tools: KafkaTools) -> None:
    config = str(cluster.security / "admin" / "client.properties")
    server = ("--bootstrap-server", cluster.bootstrap, "--command-config", config)
    kafka_tools.run("topics", *server, "--create", "--topic", "java", "--replication-factor", "3")
    assert "java" in kafka_tools.run("topics", *server, "--list").stdout


def test_clients_without_a_log_in_or_with_a_wrong_password_are_not_served(cluster: Secure) -> None:
    with pytest.raises(KafkaError):
        KafkaAdminClient(bootstrap_timeout_ms=3000, **(cluster.kafka_python() | {"sasl_plain_password": "wrong"}))
    plain = subprocess.run(
        [sys.executable, "-m", "esp", "topics", "--list", "--bootstrap-server", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert plain.returncode == 1


def test_a_new_user_may_do_what_a_rule_allows(cluster: Secure, tmp_path: Path) -> None:
    done(cluster.run("topics", "--create", "--topic", "orders"))
    password = done(cluster.run("users", "add", "alice")).strip()
    alice = cluster.kafka_python() | {"sasl_plain_username": "alice", "sasl_plain_password": password}
    producer = KafkaProducer(**alice)
    with pytest.raises(TopicAuthorizationFailedError):
        producer.send("orders", b"x").get(30)
    producer.close()


def test_a_node_that_is_added_knows_the_others_and_they_know_it(cluster: Secure) -> None:
    added = subprocess.run(
        [sys.executable, "-m", "esp", "cluster", "add-node", "--dir", str(cluster.security.parent)],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert "ready node=4" in done(added)
    done(cluster.run("topics", "--create", "--topic", "wide", "--partitions", "8", "--replication-factor", "4"))
    eventually(lambda: "under" not in cluster.run("topics", "--describe", "--under-replicated-partitions").stdout, 60)
    assert len(cluster.kafka_python()["bootstrap_servers"]) == 4


def test_the_doctor_finds_nothing_open(cluster: Secure) -> None:
    rules = "open-listener,readable-passwords,anonymous-super-user,open-resources,secret-in-metadata,few-iterations"
    assert "Nothing found" in done(cluster.run("doctor", "--rule", f"{rules},certificate-ends-this-month"))


def test_no_secret_is_readable_by_others_or_printed(cluster: Secure) -> None:
    directory = cluster.security.parent
    for path in directory.rglob("*"):  # also of the data: the metadata log has what passwords can be guessed by
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    token_secret = (cluster.security / "tokens.properties").read_text().strip().partition("=")[2]
    assert len(token_secret) == 64
    for secret in (cluster.password.encode(), token_secret.encode()):
        assert secret not in cluster.output.encode()
        for path in directory.rglob("*"):
            if path.is_file() and cluster.security not in path.parents:
                assert secret not in path.read_bytes(), path


@pytest.mark.kafka
def test_a_token_that_one_node_made_is_taken_by_the_others(
    cluster: Secure, tmp_path: Path, kafka_tools: KafkaTools
) -> None:
    done(cluster.run("topics", "--create", "--topic", "by-token"))
    token = done(cluster.run("tokens", "create"))
    lines = (cluster.security / "admin" / "client.properties").read_text().splitlines()
    config = tmp_path / "by-token.properties"
    config.write_text("\n".join([*(line for line in lines if not line.startswith("sasl.jaas.config=")), token]))
    for server in cluster.kafka_python()["bootstrap_servers"][:3]:
        listed = kafka_tools.run(
            "topics", "--bootstrap-server", server, "--command-config", str(config), "--list", "--exclude-internal"
        )
        assert "by-token" in listed.stdout, listed.stderr


def test_an_operator_s_own_secrets_go_with_those_that_are_made(tmp_path: Path) -> None:
    (tmp_path / "own.properties").write_text("interval=250\n")
    secure = secure_node(
        tmp_path,
        free_port(),
        *("--set", "config.providers=own"),
        *("--set", "config.providers.own.class=org.apache.kafka.common.config.provider.FileConfigProvider"),
        *("--set", f"log.retention.check.interval.ms=${{own:{tmp_path}/own.properties:interval}}"),
    )
    try:
        secure.start()
        assert "tokenauth" in done(secure.run("tokens", "create"))
    finally:
        secure.end()


def test_a_lone_node_is_secure_and_stays_so(lone: Secure) -> None:
    lone.start()
    done(lone.run("topics", "--create", "--topic", "t"))
    password = lone.password
    lone.stop()
    data = lone.security.parent / "data"
    assert [path for path in (data, *data.rglob("*")) if path.stat().st_mode & 0o077] == []
    data.chmod(0o755)  # as a node of an earlier release has made it
    lone.start()
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert lone.password == password
    assert "t" in done(lone.run("topics", "--list")).split()
    lone.stop()
    open_again = subprocess.run(
        [sys.executable, "-m", "esp", "broker", "--data-dir", str(lone.security.parent / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert open_again.returncode == 1
    assert "would serve everyone now" in open_again.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--config", "x"), "--config names a file of others"),
        (("--set", "super.users=User:me"), "with --secure the node has its own"),
        (("--set", "listeners=PLAINTEXT://127.0.0.1:9"), "as in listeners=CLIENTS://127.0.0.1:9;"),
        (
            (
                *("--set", "listeners=CLIENTS://127.0.0.1:9,NODES://127.0.0.1:0,CONTROLLER://127.0.0.1:10"),
                *("--set", "controller.quorum.voters=1@127.0.0.1:10,2@127.0.0.1:11"),
            ),
            "a cluster of its own",
        ),
    ],
)
def test_settings_that_are_in_the_way_are_refused(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "esp", "broker", "--secure", "--data-dir", "data", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert refused.returncode == 1
    assert words in refused.stderr


def test_data_that_was_made_without_protection_is_not_made_secure_in_passing(tmp_path: Path) -> None:
    for command in (
        ("format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--standalone", "--data-dir", "data"),
        ("broker", "--secure", "--data-dir", "data"),
    ):
        last = subprocess.run(
            [sys.executable, "-m", "esp", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert last.returncode == 1
    assert "started without --secure" in last.stderr
