"""Quotas of clients, set by Kafka's own tool and felt by bare connections and real clients.

The tests hold for Apache Kafka too (``ESP_TEST_AGAINST=kafka``): the throttle times are computed from Kafka's formulas, which are given in
each test, and compared with what the node tells and with the time that it lets the connection wait.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaConsumer, KafkaProducer
from kio.schema.alter_client_quotas.v1 import request as alter_client_quotas
from kio.schema.create_topics.v5 import request as create_topics_v5
from kio.schema.create_topics.v6 import request as create_topics_v6
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest
from kio.static.primitive import f64

from esp.cli.app import run_tools
from esp.protocol.own_fields import DescribeClientQuotasRequest
from esp.records.builder import NewRecord, build_batch
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess, free_port
from esp.testing.real_kafka import AGAINST_KAFKA, RealKafka
from tests.integration import messages
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.java_tools import JavaTools
from tests.integration.wire import Wire

pytestmark = pytest.mark.kafka

QUOTA = 100_000
RECORD_BYTES = 400_000
SLACK_MS = 150
"""What a busy machine may take for a request or a process that wakes up."""


@pytest.fixture(scope="module")
def tools(kafka_tools: KafkaTools, node: NodeProcess) -> JavaTools:
    """Kafka's tools for the node."""
    return JavaTools(kafka_tools, node.bootstrap)


@contextmanager
def quota(tools: JavaTools, entity: tuple[str, ...], **limits: float) -> Iterator[None]:
    """Quotas of an entity for as long as the block lasts."""
    values = ",".join(f"{key}={value}" for key, value in limits.items())
    tools("configs", "--alter", "--add-config", values, *entity)
    try:
        yield
    finally:
        tools("configs", "--alter", "--delete-config", ",".join(limits), *entity)


def of_client(name: str) -> tuple[str, ...]:
    return ("--entity-type", "clients", "--entity-name", name)


def batch_of(size: int) -> bytes:
    now_ms = int(time.time() * 1000)
    return build_batch([NewRecord(b"x" * size)], base_offset=0, leader_epoch=-1, timestamp_ms=now_ms)


def milliseconds(time_: timedelta) -> int:
    return time_ // timedelta(milliseconds=1)


def test_the_tool_sets_lists_and_removes_quotas(tools: JavaTools) -> None:
    entity = of_client("listed")
    tools("configs", "--alter", "--add-config", "producer_byte_rate=1024,request_percentage=12.5", *entity)
    described = tools("configs", "--describe", *entity)
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=12.5" in described
    tools("configs", "--alter", "--delete-config", "producer_byte_rate,request_percentage", *entity)
    assert "producer_byte_rate" not in tools("configs", "--describe", *entity)


def test_a_producer_over_its_quota_is_answered_at_once_and_then_waits(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    request = messages.produce(topic, batch_of(RECORD_BYTES))
    told: list[int] = []
    with quota(tools, of_client("greedy"), producer_byte_rate=QUOTA), Wire(node, 30, client_id="greedy") as wire:
        began_s = time.monotonic()
        for _ in range(3):
            answer = wire.call(request)
            assert answer.responses[0].partition_responses[0].error_code == 0
            told.append(milliseconds(answer.throttle_time))
        answered_ms = (time.monotonic() - began_s) * 1000
        assert told[:2] == [0, 0]
        # 3 requests of 400 kB in 10 s and what has passed of the eleventh are 120 kB/s: 20 % too much, of 10 s
        assert 2000 - answered_ms - SLACK_MS < told[2] < 2000 + SLACK_MS
        assert answered_ms < 1000, "the third request is answered before its client waits"
        waits_s = time.monotonic()
        wire.call(messages.metadata(topic))
        waited_ms = (time.monotonic() - waits_s) * 1000
        assert told[2] - SLACK_MS < waited_ms < told[2] + 10 * SLACK_MS
    with Wire(node, client_id="greedy") as wire:
        assert milliseconds(wire.call(request).throttle_time) == 0


def test_quotas_of_a_user_hold_its_clients_but_for_those_with_one_of_their_own(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    """On a listener at which nobody logs in all clients are one user."""
    request = messages.produce(make_topic(), batch_of(RECORD_BYTES))
    user = ("--entity-type", "users", "--entity-name", "ANONYMOUS")

    def told(client_id: str) -> list[int]:
        with Wire(node, 30, client_id=client_id) as wire:
            return [milliseconds(wire.call(request).throttle_time) for _ in range(3)]

    with (
        quota(tools, user, producer_byte_rate=QUOTA),
        quota(tools, (*user, *of_client("privileged")), producer_byte_rate=100 * QUOTA),
    ):
        described = tools("configs", "--describe", *user)
        assert "Quota configs for user-principal 'ANONYMOUS' are producer_byte_rate=100000.0" in described
        assert told("privileged") == [0, 0, 0]
        assert told("one of many")[2] > 0
    assert told("one of many") == [0, 0, 0]


def test_another_connection_of_the_client_is_told_what_it_has_used(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    request = messages.produce(make_topic(), batch_of(RECORD_BYTES))
    with (
        quota(tools, of_client("twofold"), producer_byte_rate=QUOTA),
        Wire(node, 30, client_id="twofold") as first,
        Wire(node, 30, client_id="twofold") as second,
        Wire(node, 30, client_id="another") as another,
    ):
        told = [milliseconds(first.call(request).throttle_time) for _ in range(3)]
        assert told[:2] == [0, 0]
        began_s = time.monotonic()
        told_second = milliseconds(second.call(request).throttle_time)
        assert time.monotonic() - began_s < 1, "its first request is answered at once"
        assert 6000 - 10 * SLACK_MS < told_second < 6000 + SLACK_MS  # 160 kB/s: 60 % too much, of 10 s
        assert milliseconds(another.call(request).throttle_time) == 0


def test_a_consumer_over_its_quota_gets_an_empty_answer_and_then_waits(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Wire(node) as wire:
        for _ in range(4):
            wire.call(messages.produce(topic, batch_of(RECORD_BYTES)))
    with quota(tools, of_client("hungry"), consumer_byte_rate=QUOTA), Wire(node, 30, client_id="hungry") as wire:
        told: list[int] = []
        sizes: list[int] = []
        for _ in range(3):
            answer = wire.call(messages.fetch(topic, 0, partition_max_bytes=RECORD_BYTES))
            told.append(milliseconds(answer.throttle_time))
            sizes.append(sum(len(p.records) for t in answer.responses for p in t.partitions))
        assert told[:2] == [0, 0]
        assert 2000 - 2 * SLACK_MS < told[2] < 2000 + SLACK_MS
        assert sizes[0] == sizes[1] >= RECORD_BYTES
        assert sizes[2] == 0
        began_s = time.monotonic()
        answer = wire.call(messages.fetch(topic, 0, partition_max_bytes=RECORD_BYTES))
        waited_ms = (time.monotonic() - began_s) * 1000
        assert told[2] - SLACK_MS < waited_ms < told[2] + 10 * SLACK_MS
        # What the client was not sent is not counted: it is as much too much as before.
        assert 2000 - 2 * SLACK_MS < milliseconds(answer.throttle_time) < 2000 + SLACK_MS


def test_one_fetch_takes_no_more_than_the_windows_allow(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    with Wire(node) as wire:
        for _ in range(10):
            wire.call(messages.produce(topic, batch_of(10_000)))
    with quota(tools, of_client("modest"), consumer_byte_rate=5_000), Wire(node, 30, client_id="modest") as wire:
        taken: list[int] = []
        while (
            not taken
        ):  # Kafka counts the fields around the records as well, and has nothing for the client now and then
            answer = wire.call(messages.fetch(topic, 0))
            assert milliseconds(answer.throttle_time) < SLACK_MS
            taken = [len(p.records) for t in answer.responses for p in t.partitions]
        assert 40_000 < taken[0] <= 5_000 * 10


def test_time_of_requests_is_throttled_for_one_window_at_most(tools: JavaTools, node: NodeProcess) -> None:
    with quota(tools, of_client("busy"), request_percentage=0.01), Wire(node, 30, client_id="busy") as wire:
        began_s = time.monotonic()
        told: list[int] = []
        while not any(told) and time.monotonic() < began_s + 60:
            told.append(milliseconds(wire.call(messages.metadata()).throttle_time))
        assert 0 < told[-1] <= 1000
        waits_s = time.monotonic()
        wire.call(messages.metadata())
        assert (time.monotonic() - waits_s) * 1000 > told[-1] - SLACK_MS


def new_topic(version: ModuleType, name: str) -> object:
    return version.CreateTopicsRequest(
        topics=(version.CreatableTopic(name=name, num_partitions=6, replication_factor=1, assignments=(), configs=()),),
        timeout=timedelta(seconds=10),
        validate_only=False,
    )


def test_topics_over_the_quota_of_changes_are_refused_or_throttled(
    tools: JavaTools, node: NodeProcess, topic: str
) -> None:
    with quota(tools, of_client("maker"), controller_mutation_rate=1):
        with Wire(node, 30, client_id="maker") as wire:
            codes: list[int] = []
            told: list[int] = []
            for number in range(3):
                answer = wire.call(new_topic(create_topics_v6, f"{topic}-{number}"))
                codes.append(int(answer.topics[0].error_code))
                told.append(milliseconds(answer.throttle_time))
            assert codes == [0, 0, 89]
            assert told[0] == 0
            assert 0 < told[2] <= 1000  # a debt of 1, less what has come in since
            began_s = time.monotonic()
            answer = wire.call(new_topic(create_topics_v6, f"{topic}-3"))
            assert (time.monotonic() - began_s) * 1000 > told[2] - SLACK_MS
            assert int(answer.topics[0].error_code) == 0
        with Wire(node, 30, client_id="maker") as wire:  # clients of old are throttled, and have it done
            answer = wire.call(new_topic(create_topics_v5, f"{topic}-4"))
            assert int(answer.topics[0].error_code) == 0
            assert 9_000 < milliseconds(answer.throttle_time) < 12_500
        with Wire(node, 30, client_id="maker") as wire:
            answer = wire.call(DeleteTopicsRequest(topic_names=(f"{topic}-0",), timeout=timedelta(seconds=10)))
            assert int(answer.responses[0].error_code) == 89


def connections(node: NodeProcess, count: int) -> int:
    """How many of so many connections, opened one after another, are served."""
    served = 0
    for _ in range(count):
        with suppress(OSError, EOFError), Wire(node, 5) as wire:
            wire.call(messages.api_versions())
            served += 1
    return served


def test_an_address_opens_only_so_many_connections(tools: JavaTools, node: NodeProcess) -> None:
    of_address = ("--entity-type", "ips", "--entity-name", HOST)
    with quota(tools, of_address, connection_creation_rate=3):
        # 30 in the ten seconds of the windows; the tool itself has opened some.
        assert 20 <= connections(node, 40) <= 31
    assert connections(node, 10) == 10


def test_clients_are_held_and_lose_nothing(tools: JavaTools, node: NodeProcess, make_topic: MakeTopic) -> None:
    """librdkafka does not obey throttle times: its connection is held. The others wait by themselves."""
    topic, size, count = make_topic(), 50_000, 30
    payload = b"p" * size
    seconds: dict[str, float] = {}
    with quota(tools, ("--entity-type", "clients", "--entity-default"), producer_byte_rate=QUOTA):
        producer = ConfluentProducer(
            {
                "bootstrap.servers": node.bootstrap,
                "client.id": "librdkafka",
                "linger.ms": 0,
                "batch.num.messages": 1,
                "queue.buffering.max.kbytes": 100_000,
            }
        )
        failed: list[object] = []
        began_s = time.monotonic()
        for _ in range(count):
            producer.produce(
                topic, payload, on_delivery=lambda error, _message: failed.append(error) if error else None
            )
        assert producer.flush(60) == 0
        seconds["librdkafka"] = time.monotonic() - began_s
        assert not failed
        python = KafkaProducer(bootstrap_servers=node.bootstrap, client_id="kafka-python", linger_ms=0)
        began_s = time.monotonic()
        for future in [python.send(topic, payload) for _ in range(count)]:
            future.get(60)
        seconds["kafka-python"] = time.monotonic() - began_s
        python.close()

        async def produce() -> None:
            aio = AIOKafkaProducer(bootstrap_servers=node.bootstrap, client_id="aiokafka")
            await aio.start()
            await asyncio.gather(*[(await aio.send(topic, payload)) for _ in range(count)])
            await aio.stop()

        began_s = time.monotonic()
        asyncio.run(produce())
        seconds["aiokafka"] = time.monotonic() - began_s
    # 1.5 MB at 100 kB/s, of which the ten seconds of the windows come at once, and the last request is answered before it waits
    assert all(4 < taken < 20 for taken in seconds.values()), seconds
    consumer = KafkaConsumer(
        topic, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=5000
    )
    read = 0
    for message in consumer:
        read += len(message.value)
        if read == 3 * count * size:
            break
    consumer.close()
    assert read == 3 * count * size


def test_the_command_shows_whom_the_node_holds_now(
    tools: JavaTools, node: NodeProcess, make_topic: MakeTopic, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["quotas", "held", "--bootstrap-server", node.bootstrap]
    with quota(tools, of_client("reader"), consumer_byte_rate=5_000):
        topic = make_topic()
        producer = KafkaProducer(bootstrap_servers=node.bootstrap, linger_ms=0)
        for _ in range(8):
            producer.send(topic, b"x" * 20_000).get(30)
        producer.close()
        consumer = KafkaConsumer(
            topic, bootstrap_servers=node.bootstrap, client_id="reader", auto_offset_reset="earliest"
        )

        def is_held() -> bool:
            consumer.poll(timeout_ms=500)
            capsys.readouterr()
            done = run_tools(command)
            said = capsys.readouterr()
            if AGAINST_KAFKA:
                assert done == 1
                return "does not tell" in said.err
            assert done == 0, said.err
            return "client id reader" in said.out and "consumer_byte_rate" in said.out

        eventually(is_held, 60)
        consumer.close()


def alter(node: NodeProcess, entity: Mapping[str, str | None], key: str, value: float | None) -> None:
    request = alter_client_quotas.AlterClientQuotasRequest(
        entries=(
            alter_client_quotas.EntryData(
                entity=tuple(
                    alter_client_quotas.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
                ),
                ops=(alter_client_quotas.OpData(key=key, value=f64(value or 0.0), remove=value is None),),
            ),
        ),
        validate_only=False,
    )
    with Wire(node, 30) as wire:
        (entry,) = wire.call(request).entries
    assert int(entry.error_code) == 0, entry.error_message


def described(node: NodeProcess) -> set[tuple[frozenset[tuple[str, str | None]], str, float]]:
    with Wire(node, 30) as wire:
        answer = wire.call(DescribeClientQuotasRequest(components=(), strict=False))
    return {
        (frozenset((part.entity_type, part.entity_name) for part in entry.entity), value.key, value.value)
        for entry in answer.entries
        for value in entry.values
    }


def test_quotas_stand_in_the_metadata_log_as_kafka_writes_and_reads_them(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    controller = f"{HOST}:{free_port()}"
    settings = {"controller.listener.names": "CONTROLLER", "controller.quorum.bootstrap.servers": controller}
    ours = Node(data_dir, settings)
    ours.settings["listeners"] = f"PLAINTEXT://{ours.bootstrap},CONTROLLER://{controller}"
    kafka = RealKafka(data_dir, ours.settings, ours.port, tools=kafka_tools)
    user: dict[str, str | None] = {"user": "alice", "client-id": None}
    client: dict[str, str | None] = {"client-id": "app"}
    address: dict[str, str | None] = {"ip": "192.0.2.1"}
    of_user = (frozenset(user.items()), "request_percentage", 12.5)
    of_client = (frozenset(client.items()), "producer_byte_rate", 1e6)
    of_address = (frozenset(address.items()), "connection_creation_rate", 50.0)
    with ours:
        alter(ours, user, "request_percentage", 12.5)
        alter(ours, client, "producer_byte_rate", 5.0)
    with kafka:
        eventually(lambda: described(kafka) == {of_user, (of_client[0], of_client[1], 5.0)}, 30)
        alter(kafka, client, "producer_byte_rate", 1e6)
        alter(kafka, address, "connection_creation_rate", 50.0)
        alter(kafka, user, "request_percentage", None)
        eventually(lambda: described(kafka) == {of_client, of_address}, 30)
    with ours:
        assert described(ours) == {of_client, of_address}
        alter(ours, user, "request_percentage", 12.5)
        alter(ours, address, "connection_creation_rate", None)
    with kafka:
        eventually(lambda: described(kafka) == {of_client, of_user}, 30)
