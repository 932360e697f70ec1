"""Each kind of client by each way in: its words when its secret is wrong or its topic denied; and while a leader is killed and log-ins are
renewed, nothing is lost, written twice or out of order. SECURITY.md has the table of it.

The ways of one kind of client share a cluster, a kill, and a process if they can.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError as AioTopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError as KafkaPythonError
from kafka.errors import TopicAuthorizationFailedError

from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import skip_or_fail
from tests.integration.conftest import eventually
from tests.integration.guarded_cluster import CLOSED, OPEN, TOKEN, WAYS, GuardedCluster
from tests.integration.guarded_loads import (
    JavaClients,
    Load,
    of_aiokafka,
    of_java,
    of_kcat,
    of_librdkafka_and_kafka_python,
)
from tests.integration.test_kcat_security import IS_OLD

pytestmark = pytest.mark.timeout(420)

Log = pytest.LogCaptureFixture

WITH_A_SECRET: Final = WAYS[1:]
OF_JAVA: Final = (*WAYS, TOKEN)
needs_kcat = pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat on the PATH (Debian: kcat)")
OF_KCAT: Final = ("SSL", "MUTUAL", "PLAIN") if IS_OLD else WAYS[:-1]
"""The ways of Debian's kcat, as ``test_kcat_security`` says."""
KILLED_UNDER_KCAT: Final = ("SSL", "MUTUAL") if IS_OLD else OF_KCAT
"""It cannot renew a log-in, and ends when all its connections have ended at once: without renewals they do not."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedCluster]:
    with GuardedCluster(tmp_path_factory.mktemp("guarded")) as made:
        yield made


@pytest.fixture(scope="module")
def java(kafka_tools: KafkaTools) -> KafkaTools:
    if shutil.which("javac") is None:
        skip_or_fail("a JDK is needed to compile JavaClients.java")
    return kafka_tools


# Wrong secrets and denied topics, as clients tell them


def refusal_of_librdkafka(cluster: GuardedCluster, way: str) -> str:
    told: list[KafkaError] = []
    client = AdminClient(cluster.librdkafka(way, is_wrong=True) | {"error_cb": told.append})

    def is_told() -> bool:
        client.poll(0.1)
        return bool(told)

    eventually(is_told, 60)
    return "\n".join(f"{each.name()} {each.str()}" for each in told)


def refusal_of_kafka_python(cluster: GuardedCluster, way: str) -> str:
    with pytest.raises(KafkaPythonError) as caught:
        KafkaAdminClient(bootstrap_timeout_ms=5000, **cluster.kafka_python(way, is_wrong=True))
    return repr(caught.value)


def refusal_of_aiokafka(cluster: GuardedCluster, way: str) -> str:
    async def body() -> None:
        producer = AIOKafkaProducer(**cluster.aiokafka(way, is_wrong=True))
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - judged by its text
        asyncio.run(asyncio.wait_for(body(), 60))
    return repr(caught.value)


def kcat(cluster: GuardedCluster, way: str, *arguments: str, is_wrong: bool = False) -> str:
    """What kcat says when it fails."""
    told = cluster.librdkafka(way, is_wrong=is_wrong)
    del told["log_level"]  # the reason is in its log
    options = [f"-X{name}={value}" for name, value in told.items()]
    command = ["kcat", *arguments, *options]
    done = subprocess.run(command, input="x", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stdout
    return done.stderr


def refusal_of_kcat(cluster: GuardedCluster, way: str) -> str:
    return kcat(cluster, way, "-L", "-m", "10", is_wrong=True)


REFUSALS: Final[dict[str, Callable[[GuardedCluster, str], str]]] = {
    "librdkafka": refusal_of_librdkafka,
    "kafka-python": refusal_of_kafka_python,
    "aiokafka": refusal_of_aiokafka,
    "kcat": refusal_of_kcat,
}


WORDS: Final = {
    "MUTUAL": "alert unknown ca",
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "invalid credentials with SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    "OAUTHBEARER": '{"status":"invalid_token"}',
    TOKEN: "invalid credentials with SASL mechanism SCRAM-SHA-256",
}
"""The reason, as clients show it."""
SAYS_LESS: Final = {
    ("aiokafka", "MUTUAL"): "closed",
    ("aiokafka", "OAUTHBEARER"): "closed",
    ("java", "MUTUAL"): "SslAuthenticationException",
    ("kafka-python", "MUTUAL"): "TLSV1_ALERT_UNKNOWN_CA",
}
"""The words of clients that show less, or write it in another way."""


@pytest.mark.parametrize(
    ("client", "way"),
    [
        *((client, way) for client in ("librdkafka", "kafka-python", "aiokafka") for way in WITH_A_SECRET),
        *(pytest.param("kcat", way, marks=needs_kcat) for way in OF_KCAT if way in WITH_A_SECRET),
    ],
)
def test_a_client_says_that_its_secret_is_wrong(cluster: GuardedCluster, client: str, way: str, caplog: Log) -> None:
    said = REFUSALS[client](cluster, way) + caplog.text
    assert SAYS_LESS.get((client, way), WORDS[way]).lower() in said.lower()


@pytest.mark.kafka
def test_java_says_that_its_secret_is_wrong(cluster: GuardedCluster, java: KafkaTools) -> None:
    ways = OF_JAVA[1:]
    clients = JavaClients(cluster, java, "refusals", dict.fromkeys(ways, f"{OPEN}-java"), is_wrong=True)
    try:
        said = [tuple(line) for line in clients.lines()]
    finally:
        clients.close()
    assert [way for way, *_ in said] == [way for way in ways for _ in range(2)]
    for way, kind, text in said:
        assert kind == "failed"
        assert SAYS_LESS.get(("java", way), WORDS[way]) in text
        assert "AuthenticationException" in text


def denial_of_librdkafka(cluster: GuardedCluster, way: str, _log: Log) -> tuple[str, str]:
    said: list[str] = []
    producer = Producer(cluster.librdkafka(way) | {"message.timeout.ms": 60_000})
    producer.produce(CLOSED, b"x", on_delivery=lambda error, _message: said.append(str(error)))
    producer.flush(90)
    consumer = Consumer(cluster.librdkafka(way) | {"group.id": "denied"})
    consumer.subscribe([CLOSED])
    message = consumer.poll(60)
    assert message is not None
    assert message.error() is not None
    consumer.close()
    return said[0], message.error().str()


def denial_of_kafka_python(cluster: GuardedCluster, way: str, log: Log) -> tuple[str, str]:
    """Its consumer says so in its log only, and waits."""
    producer = KafkaProducer(**cluster.kafka_python(way))
    with pytest.raises(TopicAuthorizationFailedError) as writing:
        producer.send(CLOSED, b"x").get(60)
    producer.close()
    log.clear()
    consumer = KafkaConsumer(CLOSED, group_id="denied", **cluster.kafka_python(way))
    eventually(lambda: not consumer.poll(100) and f"Topic {CLOSED} is not authorized for this client" in log.text, 60)
    consumer.close(autocommit=False)
    return repr(writing.value), repr(writing.value)


def denial_of_aiokafka(cluster: GuardedCluster, way: str, _log: Log) -> tuple[str, str]:
    async def write() -> None:
        async with AIOKafkaProducer(**cluster.aiokafka(way)) as producer:
            await producer.send_and_wait(CLOSED, b"x")

    async def read() -> None:
        consumer = AIOKafkaConsumer(CLOSED, group_id="denied", **cluster.aiokafka(way))
        try:
            await consumer.start()
            await consumer.getone()
        finally:
            await consumer.stop()

    said = []
    for body in (write, read):
        with pytest.raises(AioTopicAuthorizationFailedError) as caught:
            asyncio.run(asyncio.wait_for(body(), 60))
        said.append(repr(caught.value))
    return said[0], said[1]


def denial_of_kcat(cluster: GuardedCluster, way: str, _log: Log) -> tuple[str, str]:
    return kcat(cluster, way, "-P", "-t", CLOSED), kcat(cluster, way, "-C", "-t", CLOSED, "-o", "beginning", "-e")


DENIALS: Final[dict[str, Callable[[GuardedCluster, str, Log], tuple[str, str]]]] = {
    "librdkafka": denial_of_librdkafka,
    "kafka-python": denial_of_kafka_python,
    "aiokafka": denial_of_aiokafka,
    "kcat": denial_of_kcat,
}


@pytest.mark.parametrize(
    ("client", "way"),
    [
        *((client, way) for client in ("librdkafka", "kafka-python", "aiokafka") for way in WAYS),
        *(pytest.param("kcat", way, marks=needs_kcat) for way in OF_KCAT),
    ],
)
def test_a_client_says_that_its_topic_is_denied(cluster: GuardedCluster, client: str, way: str, caplog: Log) -> None:
    for said in DENIALS[client](cluster, way, caplog):
        assert "Topic authorization failed" in said or "TopicAuthorizationFailedError" in said


@pytest.mark.kafka
def test_java_says_that_its_topic_is_denied(cluster: GuardedCluster, java: KafkaTools) -> None:
    clients = JavaClients(cluster, java, "refusals", dict.fromkeys(OF_JAVA, CLOSED))
    try:
        said = [(way, kind, text.partition(":")[2].strip()) for way, kind, text in clients.lines()]
    finally:
        clients.close()
    assert said == [
        (way, "failed", f"Not authorized to access topics: [{CLOSED}]") for way in OF_JAVA for _ in range(2)
    ]


# Killed leaders


Start = Callable[[GuardedCluster, dict[str, str]], dict[str, Load]]


def kill_under_load(cluster: GuardedCluster, client: str, ways: tuple[str, ...], start: Start) -> None:
    topics = {way: f"{OPEN}-{client}-{way}" for way in ways}
    cluster.wait_until_in_sync()
    victim = 1 + len(client) % 3
    cluster.make_topics(list(topics.values()), leader=victim)
    loads = start(cluster, topics)
    try:
        for load in loads.values():
            load.until_more(100)
        cluster.cluster.nodes[victim].kill()
        for load in loads.values():
            load.until_more(200)
        cluster.cluster.nodes[victim].start()
        cluster.wait_until_in_sync()
        for load in loads.values():
            load.stops_writing.set()
        for load in loads.values():
            load.end()
    finally:
        for load in loads.values():
            load.stop()
        for load in loads.values():
            load.join()


@pytest.mark.parametrize(
    ("client", "ways", "start"),
    [
        ("librdkafka", WAYS, of_librdkafka_and_kafka_python),
        ("aiokafka", WAYS, of_aiokafka),
        pytest.param("kcat", KILLED_UNDER_KCAT, of_kcat, marks=needs_kcat),
    ],
    ids=["librdkafka and kafka-python", "aiokafka", "kcat"],
)
def test_nothing_is_lost_when_a_leader_is_killed(
    cluster: GuardedCluster, client: str, ways: tuple[str, ...], start: Start
) -> None:
    kill_under_load(cluster, client, ways, start)


@pytest.mark.kafka
def test_java_loses_nothing_when_a_leader_is_killed(cluster: GuardedCluster, java: KafkaTools) -> None:
    kill_under_load(cluster, "java", OF_JAVA, partial(of_java, tools=java))
