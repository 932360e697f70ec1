"""Clients that log in: each by every mechanism, with and without TLS; what it sees when it is refused; and while log-ins are renewed."""

import asyncio
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import TopicAuthorizationFailedError

from esp.consumer.errors import ConsumerError
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeError
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import NodeFactory
from tests.integration.conftest import eventually
from tests.integration.librdkafka_reads import read_values
from tests.integration.source_rows import read_values as read_values_by_data_source
from tests.models.certificates import PASSWORD, Authority

VALUES = [b"%d " % number * 100 for number in range(300)]
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRETS = {"alice": "alice-secret", "bob": 'b"o\\b, =3D', "carol": "carol-secret"}


@dataclass(frozen=True)
class LogIn:
    """How a client logs in, as each kind of client is told."""

    bootstrap: str
    protocol: str
    mechanism: str
    authority: Path
    user: str = "alice"
    password: str = SECRETS["alice"]

    @property
    def kafka_python(self) -> dict[str, object]:
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": self.protocol,
            "ssl_cafile": str(self.authority / "ca.pem"),
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }

    @property
    def aiokafka(self) -> dict[str, object]:
        options = self.kafka_python
        del options["ssl_cafile"]
        if self.protocol == "SASL_SSL":
            options["ssl_context"] = ssl.create_default_context(cafile=self.authority / "ca.pem")
        return options

    @property
    def librdkafka(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": self.protocol.lower(),
            "ssl.ca.location": str(self.authority / "ca.pem"),
            "sasl.mechanism": self.mechanism,
            "sasl.username": self.user,
            "sasl.password": self.password,
        }

    @property
    def spark(self) -> dict[str, str]:
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        options = {
            "kafka.security.protocol": self.protocol,
            "kafka.sasl.mechanism": self.mechanism,
            "kafka.sasl.jaas.config": f'{module} required username="{self.user}" password="{_quoted(self.password)}";',
        }
        if self.protocol == "SASL_SSL":
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.location"] = str(self.authority / "ca.pem")
        return options

    def java_file(self, directory: Path) -> str:
        module = PLAIN_MODULE if self.mechanism == "PLAIN" else SCRAM_MODULE
        password = self.password.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
        path = directory / f"{self.protocol}-{self.mechanism}-{self.user}.properties"
        path.write_text(
            f"security.protocol={self.protocol}\nsasl.mechanism={self.mechanism}\n"
            f'sasl.jaas.config={module} required username="{self.user}" password="{password}";\n'
            f"ssl.truststore.location={self.authority / 'ca.p12'}\nssl.truststore.password={PASSWORD}\n"
        )
        return str(path)


class GuardedNode:
    """A node with a listener of each protocol, whose clients log in."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.authority = authority = Authority()
        authority.write_pem(directory / "ca.pem")
        authority.write_pkcs12(directory / "ca.p12")
        ports = {protocol: free_port() for protocol in PROTOCOLS}
        listeners = (
            ",".join(f"{protocol}://127.0.0.1:{port}" for protocol, port in ports.items()) + ",CONTROLLER://127.0.0.1:0"
        )
        users = " ".join(f'user_{user}="{_quoted(password)}"' for user, password in SECRETS.items())
        self.addresses = {protocol: f"127.0.0.1:{port}" for protocol, port in ports.items()}
        self.process = Node(
            directory / "node",
            {
                "listeners": listeners,
                "inter.broker.listener.name": "SASL_PLAINTEXT",
                "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
                "listener.name.sasl_ssl.sasl.plain.credentials": "scram",
                "group.initial.rebalance.delay.ms": "0",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("CN=node").write_pem(directory / "node.pem")),
                **settings,
            },
            ports["SASL_PLAINTEXT"],
        )
        self.process.format(
            secrets.token_urlsafe(16),
            "--standalone",
            *(
                f"--add-scram={mechanism}=[name=alice,password={SECRETS['alice']}]"
                for mechanism in MECHANISMS
                if mechanism != "PLAIN"
            ),
            f"--add-scram=SCRAM-SHA-256=[name=carol,password={SECRETS['carol']}]",
        )

    def log_in(self, protocol: str, mechanism: str, *user: str) -> LogIn:
        return LogIn(self.addresses[protocol], protocol, mechanism, self.directory, *user)


def _quoted(password: str) -> str:
    return password.replace("\\", "\\\\").replace('"', '\\"')


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    node = GuardedNode(tmp_path_factory.mktemp("guarded"))
    with node.process:
        yield node


def write_and_read_with_kafka_python(log_in: LogIn, topic: str) -> list[bytes]:
    producer = KafkaProducer(acks="all", **log_in.kafka_python)
    for value in VALUES:
        producer.send(topic, value)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **log_in.kafka_python)
    read = [next(consumer).value for _ in VALUES]
    consumer.close()
    return read


def write_and_read_with_aiokafka(log_in: LogIn, topic: str) -> list[bytes]:
    async def body() -> list[bytes]:
        async with AIOKafkaProducer(acks="all", **log_in.aiokafka) as producer:
            for sent in [await producer.send(topic, value) for value in VALUES]:
                await sent
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **log_in.aiokafka) as consumer:
            return [(await consumer.getone()).value for _ in VALUES]

    return asyncio.run(asyncio.wait_for(body(), 60))


def write_and_read_with_librdkafka(log_in: LogIn, topic: str) -> list[bytes]:
    producer = Producer(log_in.librdkafka)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    consumer = Consumer({**log_in.librdkafka, "group.id": f"group-of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    read = read_values(consumer, len(VALUES))
    consumer.close()
    return read


def read_with_the_data_source(log_in: LogIn, topic: str) -> list[bytes | None]:
    producer = Producer(log_in.librdkafka)
    for value in VALUES:
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    return read_values_by_data_source(log_in.bootstrap, topic, **log_in.spark)


CLIENTS = {
    "kafka-python": write_and_read_with_kafka_python,
    "aiokafka": write_and_read_with_aiokafka,
    "librdkafka": write_and_read_with_librdkafka,
    "data source esp": read_with_the_data_source,
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("client", CLIENTS)
def test_client_that_logs_in_writes_and_reads(
    guarded: GuardedNode, client: str, protocol: str, mechanism: str, topic: str
) -> None:
    assert CLIENTS[client](guarded.log_in(protocol, mechanism), topic) == VALUES


@pytest.mark.kafka
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafka_s_own_tools_log_in(
    guarded: GuardedNode, kafka_tools: KafkaTools, protocol: str, mechanism: str, topic: str
) -> None:
    log_in = guarded.log_in(protocol, mechanism)
    server = ("--bootstrap-server", log_in.bootstrap, "--command-config", log_in.java_file(guarded.directory))
    lines = [f"line {number}" for number in range(100)]
    written = kafka_tools.run("console-producer", *server, "--topic", topic, stdin="\n".join(lines))
    assert "ERROR" not in written.stderr
    read = kafka_tools.run(
        "console-consumer",
        *server,
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "100",
        "--timeout-ms",
        "30000",
    )
    assert read.stdout.split("\n")[:-1] == lines, read.stderr


def test_password_may_hold_anything(guarded: GuardedNode, topic: str) -> None:
    log_in = guarded.log_in("SASL_PLAINTEXT", "PLAIN", "bob", SECRETS["bob"])
    assert write_and_read_with_librdkafka(log_in, topic) == VALUES


# Refusals, as clients tell them


def test_kafka_python_is_refused_with_a_wrong_password(guarded: GuardedNode) -> None:
    log_in = guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-256", "alice", "wrong")
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(bootstrap_timeout_ms=3000, **log_in.kafka_python)


def test_aiokafka_is_refused_with_a_wrong_password(guarded: GuardedNode) -> None:
    async def body() -> None:
        producer = AIOKafkaProducer(**guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-512", "alice", "wrong").aiokafka)
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(AioKafkaError):
        asyncio.run(asyncio.wait_for(body(), 60))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_tells_that_authentication_failed(guarded: GuardedNode, mechanism: str) -> None:
    told: list[KafkaError] = []
    log_in = guarded.log_in("SASL_PLAINTEXT", mechanism, "nobody", "wrong")
    client = AdminClient({**log_in.librdkafka, "error_cb": told.append})

    def is_told() -> bool:
        client.poll(0.1)
        return any(error.code() == KafkaError._AUTHENTICATION for error in told)

    eventually(is_told, 30)


@pytest.mark.parametrize(("protocol", "mechanism"), [("SASL_SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-512")])
def test_the_data_source_names_the_setting_to_correct(guarded: GuardedNode, protocol: str, mechanism: str) -> None:
    log_in = guarded.log_in(protocol, mechanism, "alice", "wrong")
    with pytest.raises(
        ConsumerError, match=r"does not let this client in: .*: correct kafka\.sasl\.jaas\.config"
    ) as caught:
        read_values_by_data_source(log_in.bootstrap, "t", **log_in.spark)
    assert "wrong" not in str(caught.value)


def test_the_data_source_does_not_believe_a_stranger(guarded: GuardedNode, tmp_path: Path) -> None:
    log_in = guarded.log_in("SASL_SSL", "PLAIN")
    options = {**log_in.spark, "kafka.ssl.truststore.location": str(Authority().write_pem(tmp_path / "other.pem"))}
    with pytest.raises(
        ConsumerError, match=r"the certificate of the broker at 127\.0\.0\.1 is not believed: .*ssl\.truststore"
    ):
        read_values_by_data_source(log_in.bootstrap, "t", **options)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("mechanism", "words"),
    [
        ("PLAIN", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", "due to invalid credentials with SASL mechanism SCRAM-SHA-256"),
    ],
)
def test_a_java_client_is_told_why(guarded: GuardedNode, kafka_tools: KafkaTools, mechanism: str, words: str) -> None:
    log_in = guarded.log_in("SASL_PLAINTEXT", mechanism, "nobody", "wrong")
    done = kafka_tools.run(
        *("topics", "--bootstrap-server", log_in.bootstrap, "--list"),
        *("--command-config", log_in.java_file(guarded.directory)),
    )
    assert "SaslAuthenticationException" in done.stderr
    assert words in done.stderr
    eventually(lambda: f"by {mechanism}: wrong password, or no such user: 'nobody'" in guarded.process.output)


def test_client_without_sasl_is_named_in_the_log(guarded: GuardedNode) -> None:
    with pytest.raises(KafkaPythonError):
        KafkaAdminClient(bootstrap_servers=guarded.addresses["SASL_PLAINTEXT"], bootstrap_timeout_ms=3000)
    eventually(lambda: "a client needs security.protocol=SASL_SSL or SASL_PLAINTEXT" in guarded.process.output)


def test_no_secret_is_logged_at_any_level(guarded: GuardedNode) -> None:
    for secret in (*SECRETS.values(), "wrong"):
        assert secret not in guarded.process.output.replace("wrong password", "")


def test_node_without_a_mechanism_does_not_start(fresh_node: NodeFactory) -> None:
    settings = {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"}
    with pytest.raises(NodeError, match="needs a mechanism"):
        fresh_node(settings)


# Principals


def test_principal_is_that_of_the_log_in_also_where_clients_show_certificates(tmp_path: Path) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    guarded = GuardedNode(
        tmp_path,
        **{
            "listener.name.sasl_ssl.ssl.client.auth": "required",
            "listener.name.sasl_ssl.ssl.truststore.type": "PEM",
            "listener.name.sasl_ssl.ssl.truststore.location": str(tmp_path / "ca.pem"),
            "authorizer.class.name": authorizer,
            "super.users": "User:alice;User:CN=certified",
        },
    )
    certificate = str(guarded.authority.issue("CN=certified", hosts=()).write_pem(tmp_path / "client.pem"))
    shown = {"ssl_certfile": certificate, "ssl_keyfile": certificate}
    with guarded.process:
        for user, is_allowed in (("alice", True), ("carol", False)):
            log_in = guarded.log_in("SASL_SSL", "PLAIN", user, SECRETS[user])
            admin = KafkaAdminClient(**log_in.kafka_python, **shown)
            if is_allowed:
                admin.create_topics({"t": {"num_partitions": 1}}, wait_for_metadata=True)
            else:
                with pytest.raises(TopicAuthorizationFailedError):
                    admin.create_topics({"u": {"num_partitions": 1}})
            admin.close()
        with pytest.raises(KafkaPythonError):
            KafkaAdminClient(bootstrap_timeout_ms=3000, **guarded.log_in("SASL_SSL", "PLAIN").kafka_python)
        eventually(lambda: "it showed no certificate" in guarded.process.output)


# Log-ins that count for three seconds


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    node = GuardedNode(tmp_path_factory.mktemp("short"), **{"connections.max.reauth.ms": "3000"})
    with node.process:
        yield node


LOAD_S = 11.0


def load_kafka_python(log_in: LogIn, topic: str) -> tuple[int, int]:
    sent, stop = 0, time.monotonic() + LOAD_S
    read: list[bytes] = []
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", **log_in.kafka_python)
    done = threading.Event()

    def consume() -> None:
        while not done.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                read.extend(record.value for record in records)

    thread = threading.Thread(target=consume)
    thread.start()
    producer = KafkaProducer(acks="all", enable_idempotence=True, **log_in.kafka_python)
    while time.monotonic() < stop:
        producer.send(topic, b"%d" % sent)
        sent += 1
        time.sleep(0.005)
    producer.close()
    try:
        eventually(lambda: len(read) >= sent, 30)
    finally:
        done.set()
        thread.join()
        consumer.close()
    return sent, len(set(read))


def load_aiokafka(log_in: LogIn, topic: str) -> tuple[int, int]:
    async def body() -> tuple[int, int]:
        sent, stop = 0, time.monotonic() + LOAD_S
        read: set[bytes] = set()
        async with (
            AIOKafkaProducer(acks="all", enable_idempotence=True, **log_in.aiokafka) as producer,
            AIOKafkaConsumer(topic, auto_offset_reset="earliest", **log_in.aiokafka) as consumer,
        ):
            results = []
            while time.monotonic() < stop:
                results.append(await producer.send(topic, b"%d" % sent))
                sent += 1
                await asyncio.sleep(0.005)
            for result in results:
                await result
            while len(read) < sent:
                read.add((await consumer.getone()).value)
        return sent, len(read)

    return asyncio.run(asyncio.wait_for(body(), 90))


def load_librdkafka(log_in: LogIn, topic: str) -> tuple[int, int]:
    sent, stop = 0, time.monotonic() + LOAD_S
    failed: list[KafkaError] = []
    producer = Producer({**log_in.librdkafka, "enable.idempotence": "true"})
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**log_in.librdkafka, **group})
    consumer.subscribe([topic])
    read: set[bytes] = set()

    def poll() -> int:
        read.update(message.value() for message in consumer.consume(500, 0.005) if message.error() is None)
        return len(read)

    while time.monotonic() < stop:
        producer.produce(topic, b"%d" % sent, on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0)
        sent += 1
        poll()
    assert producer.flush(30) == 0
    assert not failed
    eventually(lambda: poll() >= sent, 30)
    consumer.close()
    return sent, len(read)


LOADS: dict[str, Callable[[LogIn, str], tuple[int, int]]] = {
    "kafka-python": load_kafka_python,
    "aiokafka": load_aiokafka,
    "librdkafka": load_librdkafka,
}


Renewing = tuple[str, str, str]
"""A client, its protocol and its mechanism."""
RENEWING: list[Renewing] = [
    ("kafka-python", "SASL_PLAINTEXT", "PLAIN"),
    ("kafka-python", "SASL_SSL", "SCRAM-SHA-512"),
    ("aiokafka", "SASL_SSL", "PLAIN"),
    ("librdkafka", "SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("librdkafka", "SASL_SSL", "PLAIN"),
]


@pytest.fixture(scope="module")
def renewing_loads(short_lived: GuardedNode) -> Iterator[dict[Renewing, Future[tuple[int, int]]]]:
    """The loads of all clients, side by side: each lasts for several log-ins, and mostly waits."""

    def load(client: str, protocol: str, mechanism: str) -> tuple[int, int]:
        log_in, topic = short_lived.log_in(protocol, mechanism), f"{client}-{protocol}-{mechanism}"
        admin = KafkaAdminClient(**log_in.kafka_python)
        admin.create_topics({topic: {"num_partitions": 1}}, wait_for_metadata=True)
        admin.close()
        return LOADS[client](log_in, topic)

    with ThreadPoolExecutor(len(RENEWING)) as pool:
        yield {case: pool.submit(load, *case) for case in RENEWING}


@pytest.mark.parametrize("case", RENEWING, ids="-".join)
def test_nothing_is_lost_while_log_ins_are_renewed_every_three_seconds(
    renewing_loads: dict[Renewing, Future[tuple[int, int]]], case: Renewing
) -> None:
    sent, read = renewing_loads[case].result()
    assert sent == read > 100


@pytest.mark.kafka
def test_java_clients_renew_their_log_ins_on_their_connections(
    short_lived: GuardedNode, kafka_tools: KafkaTools, topic: str
) -> None:
    log_in = short_lived.log_in(
        "SASL_PLAINTEXT", "SCRAM-SHA-256", "carol", SECRETS["carol"]
    )  # no other client is carol
    told = log_in.java_file(short_lived.directory)
    written = kafka_tools.run(
        *("producer-perf-test", "--bootstrap-server", log_in.bootstrap, "--command-config", told),
        *("--topic", topic, "--num-records", "1100", "--record-size", "100", "--throughput", "100"),
    )
    assert "1100 records sent" in written.stdout, written.stdout + written.stderr
    assert "disconnect" not in written.stderr.lower()
    read = kafka_tools.run(
        *("console-consumer", "--bootstrap-server", log_in.bootstrap, "--command-config", told),
        *("--topic", topic, "--from-beginning", "--max-messages", "1100", "--timeout-ms", "30000"),
    )
    assert "Processed a total of 1100 messages" in read.stderr
    assert "log-in as User:carol is over" not in short_lived.process.output
