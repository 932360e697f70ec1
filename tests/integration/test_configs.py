"""Settings changed and described on a running node, as clients and Kafka's tool do it. Run on Kafka itself, every answer is the same."""

import time
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient
from kafka.errors import MessageSizeTooLargeError
from kio.schema.list_config_resources.v1 import request as list_config_resources
from kio.static.primitive import i8

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import NodeFactory
from tests.integration import messages
from tests.integration.config_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    FINE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Operation,
    Told,
    alter,
    describe,
    replace,
)
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.wire import Wire


def has(node: NodeProcess, kind: int, name: str, setting: str, told: Told) -> None:
    """Wait until a setting is told so: Kafka answers before all of it follows."""
    eventually(lambda: describe(node, kind, name, setting) == {setting: told})


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (("foo.bar", SET, "1"), "invalid_config", "Unknown topic config name: foo.bar"),
        (
            ("retention.ms", SET, "x"),
            "invalid_config",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            ("retention.ms", SET, "-5"),
            "invalid_config",
            "Invalid value -5 for configuration retention.ms: Value must be at least -1",
        ),
        (
            ("min.insync.replicas", SET, "0"),
            "invalid_config",
            "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
        ),
        (
            ("cleanup.policy", APPEND, "foo"),
            "invalid_config",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            ("retention.ms", APPEND, "1"),
            "invalid_config",
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (("foo", SUBTRACT, "1"), "invalid_config", "Can't SUBTRACT to key foo because its type is not LIST."),
        (("retention.ms", SET, None), "invalid_request", "Null value not supported for : retention.ms"),
        (
            ("remote.storage.enable", SET, "true"),
            "invalid_config",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (("retention.ms", SET, " 77 "), *FINE),
        (("foo", DELETE, None), *FINE),
        (("retention.ms", DELETE, "x"), *FINE),
    ],
)
def test_a_topic_takes_and_refuses_what_kafka_does(
    node: NodeProcess, make_topic: MakeTopic, operation: Operation, code: str, message: str | None
) -> None:
    topic = make_topic()
    assert alter(node, (TOPIC, topic, [operation])) == [(code, message)]


@pytest.mark.parametrize(
    ("kind", "name", "setting", "code", "message"),
    [
        (TOPIC, "nope", "retention.ms", "unknown_topic_or_partition", "The topic 'nope' does not exist."),
        (TOPIC, "", "retention.ms", "invalid_request", "Default topic resources are not allowed."),
        (
            TOPIC,
            "a b",
            "retention.ms",
            "invalid_topic_exception",
            (
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and "
                "'-'"
            ),
        ),
        (3, "t", "retention.ms", "invalid_request", "Unknown resource type 3"),
        (
            BROKER,
            "2",
            "log.retention.ms",
            "invalid_request",
            "Unexpected broker id, expected 1, but received 2",
        ),
        (BROKER, "x", "log.retention.ms", "invalid_request", "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "1",
            "num.partitions",
            "invalid_request",
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            "listeners",
            "invalid_request",
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            BROKER,
            "1",
            "ssl.keystore.type",
            "invalid_request",
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.type]",
        ),
        (
            BROKER,
            "1",
            "min.insync.replicas",
            "invalid_config",
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (BROKER, "1", "foo.bar", *FINE),
        (GROUP, "", "consumer.session.timeout.ms", "invalid_request", "Default group resources are not allowed."),
        (GROUP, "g", "foo", "invalid_config", "Unknown group config name: foo"),
        (
            GROUP,
            "g",
            "consumer.session.timeout.ms",
            "invalid_config",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (CLIENT_METRICS, "", "metrics", "invalid_request", "Subscription name can't be empty"),
        (
            CLIENT_METRICS,
            "m",
            "interval.ms",
            "invalid_request",
            "Invalid value 5 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (BROKER_LOGGER, "1", "no.such", "invalid_config", "Logger no.such does not exist!"),
        (BROKER_LOGGER, "2", "root", "invalid_request", "Unexpected node id. Expected 1, but received 2"),
    ],
)
def test_every_resource_takes_and_refuses_what_kafka_does(
    node: NodeProcess, kind: int, name: str, setting: str, code: str, message: str | None
) -> None:
    assert alter(node, (kind, name, [(setting, SET, "5")]), check=True) == [(code, message)]


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", "unknown_topic_or_partition", ""),
        (TOPIC, "", "invalid_topic_exception", "Topic name is invalid: the empty string is not allowed"),
        (BROKER, "2", "invalid_request", "Unexpected broker id, expected 1 or empty string, but received 2"),
        (BROKER, "x", "invalid_request", "Broker id must be an integer, but it is: x"),
        (BROKER_LOGGER, "2", "invalid_request", "Unexpected broker id, expected 1 but received 2"),
        (BROKER_LOGGER, "", "invalid_request", "Broker id must not be empty"),
        (GROUP, "", "invalid_request", "Group name must not be empty"),
        (CLIENT_METRICS, "", "invalid_request", "Client metrics subscription name must not be empty"),
    ],
)
def test_what_cannot_be_described_is_refused_as_kafka_does(
    node: NodeProcess, kind: int, name: str, code: str, message: str
) -> None:
    told = describe(node, kind, name)
    assert (told[0], told[1] or "") == (code, message)


def test_each_resource_is_answered_for_itself(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    twice = (TOPIC, "twice", [("retention.ms", SET, "1")])
    refused = ("invalid_request", "Each resource must appear at most once.")
    assert alter(node, twice, (TOPIC, topic, [("retention.ms", SET, "5")]), twice) == [refused, FINE, refused]
    has(node, TOPIC, topic, "retention.ms", ("5", 1, [("retention.ms", "5", 1)]))


def test_settings_come_from_the_topic_the_broker_all_brokers_and_defaults(
    node: NodeProcess, make_topic: MakeTopic
) -> None:
    topic = make_topic(retention_ms=7)
    name = "log.retention.ms"
    assert alter(node, (BROKER, "1", [(name, SET, "400000")]), (BROKER, "", [(name, SET, "500000")])) == [FINE, FINE]
    broker = [(name, "400000", 2), (name, "500000", 3), ("log.retention.hours", "168", 5)]
    has(node, BROKER, "1", name, ("400000", 2, broker))
    has(node, BROKER, "", name, ("500000", 3, [(name, "500000", 3)]))
    has(node, TOPIC, topic, "retention.ms", ("7", 1, [("retention.ms", "7", 1), *broker]))
    assert alter(node, (TOPIC, topic, [("retention.ms", DELETE, None)])) == [FINE]
    has(node, TOPIC, topic, "retention.ms", ("400000", 2, broker))
    assert alter(node, (BROKER, "1", [(name, DELETE, None)]), (BROKER, "", [(name, DELETE, None)])) == [FINE, FINE]
    has(node, TOPIC, topic, "retention.ms", ("604800000", 5, []))


def test_lists_grow_and_shrink(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    name = "leader.replication.throttled.replicas"
    assert alter(node, (TOPIC, topic, [(name, APPEND, "0:1,0:2")])) == [FINE]
    assert alter(node, (TOPIC, topic, [(name, APPEND, "0:2,0:3")])) == [FINE]
    has(node, TOPIC, topic, name, ("0:1,0:2,0:3", 1, [(name, "0:1,0:2,0:3", 1)]))
    assert alter(node, (TOPIC, topic, [(name, SUBTRACT, "0:1,0:3")])) == [FINE]
    has(node, TOPIC, topic, name, ("0:2", 1, [(name, "0:2", 1)]))


def test_settings_are_replaced_as_a_whole(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=5)
    assert replace(node, TOPIC, topic, {"flush.ms": "9"}) == FINE
    has(node, TOPIC, topic, "retention.ms", ("604800000", 5, []))
    has(node, TOPIC, topic, "flush.ms", ("9", 1, [("flush.ms", "9", 1)]))
    refused = ("invalid_request", "Null value not supported for : flush.ms")
    assert replace(node, TOPIC, topic, {"flush.ms": None}) == refused
    assert replace(node, BROKER_LOGGER, "1", {"root": "INFO"}) == ("invalid_request", "Unknown resource type 8")


def test_groups_and_client_metrics_are_kept_and_listed(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    name = "consumer.session.timeout.ms"
    group = (GROUP, "listed-group", [(name, SET, "46000")])
    metrics = (CLIENT_METRICS, "listed-metrics", [("interval.ms", SET, "1000"), ("match", SET, "client_id=x")])
    assert alter(node, group, metrics) == [FINE, FINE]
    inherited = ("group.consumer.session.timeout.ms", "45000", 5)
    has(node, GROUP, "listed-group", name, ("46000", 8, [(name, "46000", 8), inherited]))
    has(node, GROUP, "no-such-group", name, ("45000", 5, [inherited]))
    has(node, CLIENT_METRICS, "listed-metrics", "match", ("client_id=x", 7, [("match", "client_id=x", 7)]))
    with Wire(node) as wire:
        answer = wire.call(list_config_resources.ListConfigResourcesRequest(resource_types=()))
        listed = {(resource.resource_type, resource.resource_name) for resource in answer.config_resources}
        assert {
            (TOPIC, topic),
            (BROKER, "1"),
            (BROKER_LOGGER, "1"),
            (GROUP, "listed-group"),
            (CLIENT_METRICS, "listed-metrics"),
        } <= listed
        answer = wire.call(list_config_resources.ListConfigResourcesRequest(resource_types=(i8(GROUP), i8(3))))
        assert answer.error_code.name == "unsupported_version"


def test_the_largest_message_changes_while_the_node_runs(
    node: NodeProcess, admin: KafkaAdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    producer = KafkaProducer(
        bootstrap_servers=node.bootstrap, enable_idempotence=False
    )  # it would go on with nothing after an error

    def is_taken() -> bool:
        try:
            producer.send(topic, b"x" * 5_000).get(20)
        except MessageSizeTooLargeError:
            return False
        return True

    try:
        assert is_taken()
        for kind, name, setting in ((TOPIC, topic, "max.message.bytes"), (BROKER, "", "message.max.bytes")):
            assert alter(node, (kind, name, [(setting, SET, "1000")])) == [FINE]
            eventually(lambda: not is_taken())
            assert alter(node, (kind, name, [(setting, DELETE, None)])) == [FINE]
            eventually(is_taken)
    finally:
        producer.close()


def test_settings_outlive_a_kill(fresh_node: Any) -> None:
    node = fresh_node()
    assert alter(node, (BROKER, "", [("log.retention.ms", SET, "500000")])) == [FINE]
    node.kill()
    node.start()
    name = "log.retention.ms"
    has(node, BROKER, "1", name, ("500000", 3, [(name, "500000", 3), ("log.retention.hours", "168", 5)]))


def test_confluent_kafka_changes_settings(node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()
    client = AdminClient({"bootstrap.servers": node.bootstrap})
    entries = [
        ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.APPEND),
    ]
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
    for future in client.incremental_alter_configs([resource]).values():
        future.result(20)

    def value_of(name: str) -> str:
        [described] = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
        return str(described.result(20)[name].value)

    eventually(lambda: value_of("retention.ms") == "5000")
    assert value_of("cleanup.policy") == "delete"


@pytest.mark.kafka
def test_kafka_configs_changes_and_describes(kafka_tools: KafkaTools, node: NodeProcess, make_topic: MakeTopic) -> None:
    topic = make_topic()

    def run(*arguments: str) -> str:
        done = kafka_tools.run("configs", "--bootstrap-server", node.bootstrap, *arguments)
        return done.stdout + done.stderr

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    assert f"Completed updating config for topic {topic}." in run(
        "--alter", *of_topic, "--add-config", "retention.ms=9000"
    )
    deadline = time.monotonic() + 20
    while "retention.ms=9000" not in (told := run("--describe", *of_topic)):
        assert time.monotonic() < deadline, told
    assert f"Completed updating config for topic {topic}." in run(
        "--alter", *of_topic, "--delete-config", "retention.ms"
    )
    refused = run("--alter", *of_topic, "--add-config", "no.such=1")
    assert "InvalidConfigurationException: Unknown topic config name: no.such" in refused
    brokers = ("--entity-type", "brokers", "--entity-default")
    assert "Completed updating default config for brokers in the cluster." in run(
        "--alter", *brokers, "--add-config", "log.cleaner.threads=2"
    )
    refused = run("--alter", *brokers, "--add-config", "num.partitions=2")
    assert "Cannot update these configs dynamically: [num.partitions]" in refused
    refused = run("--alter", *brokers, "--add-config", "log.cleaner.threads=9")
    assert "Log cleaner threads cannot be increased to more than double the current value" in refused
    refused = run("--alter", *brokers, "--add-config", "log.cleaner.dedupe.buffer.size=1000")
    assert "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread." in refused
    group = ("--entity-type", "groups", "--entity-name", "described-group")
    assert "Completed updating config for group described-group." in run(
        "--alter", *group, "--add-config", "consumer.session.timeout.ms=46000"
    )
    assert "consumer.session.timeout.ms=46000" in run("--describe", *group)


def served(node: NodeProcess, count: int) -> int:
    """How many of so many connections, open at a time, a node answers."""
    with ExitStack() as opened:
        answered = 0
        for _ in range(count):
            with suppress(OSError, EOFError):
                wire = opened.enter_context(Wire(node, 2))
                wire.call(messages.api_versions())
                answered += 1
        return answered


def test_a_limit_of_one_listener_changes_while_the_node_runs(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    limit = "listener.name.plaintext.max.connections"
    node_limit = ("max.connections", "2147483647", 5)
    assert served(node, 6) == 6
    assert alter(node, (BROKER, "", [(limit, SET, "2")])) == [FINE]
    has(node, BROKER, "1", limit, ("2", 3, [(limit, "2", 3), node_limit]))
    eventually(lambda: served(node, 4) == 2)
    assert alter(node, (BROKER, "1", [(limit, SET, "3")])) == [FINE]
    eventually(lambda: served(node, 4) == 3)
    assert alter(node, (BROKER, "1", [(limit, DELETE, None)]), (BROKER, "", [(limit, DELETE, None)])) == [FINE, FINE]
    eventually(lambda: served(node, 6) == 6)


@pytest.mark.parametrize("setting", ["max.connections", "max.connection.creation.rate"])
def test_a_wrong_limit_of_a_listener_is_refused(node: NodeProcess, setting: str) -> None:
    name = f"listener.name.plaintext.{setting}"
    for resource in ("1", ""):
        told = [alter(node, (BROKER, resource, [(name, SET, value)]), check=True)[0][1] for value in ("0", "-1", "x")]
        problem = f"org.apache.kafka.common.config.ConfigException: Invalid {setting} 0"
        assert told == [
            f"Invalid value {problem} for configuration Invalid dynamic configuration",
            f"Invalid value -1 for configuration {setting}: Value must be at least 0",
            f"Invalid value x for configuration {setting}: Not a number of type INT",
        ]
