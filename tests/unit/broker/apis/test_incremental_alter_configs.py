import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.config_requests import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    TOPIC,
    alter,
    describe,
)
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.simulated_node import records, simulated

FINE = [(ErrorCode.none, None)]


@pytest.mark.parametrize("version", [0, 1])
@simulated()
async def test_a_topics_settings_are_in_effect_when_the_answer_comes(node, version):
    client = await node.client()
    await create_topic(client)
    changes = ("retention.ms", SET, "5"), ("max.message.bytes", SET, "100")
    assert await alter(client, (TOPIC, "t", *changes), version=version) == FINE
    assert (node.log("t").settings.retention_ms, node.log("t").settings.max_message_bytes) == (5, 100)
    assert (await produce(client, "t", records(b"x" * 200))).error_code is ErrorCode.message_too_large
    assert await alter(client, (TOPIC, "t", ("max.message.bytes", DELETE, None)), version=version) == FINE
    assert (await produce(client, "t", records(b"x" * 200))).error_code is ErrorCode.none
    assert await describe(client, TOPIC, "t", "retention.ms") == {"retention.ms": ("5", 1)}


@simulated()
async def test_what_is_only_checked_changes_nothing(node):
    client = await node.client()
    await create_topic(client)
    assert await alter(client, (TOPIC, "t", ("retention.ms", SET, "5")), validate_only=True) == FINE
    assert node.log("t").settings.retention_ms == 604_800_000


@simulated()
async def test_topics_inherit_what_brokers_are_given(node):
    client = await node.client()
    await create_topic(client)
    await create_topic(client, "own", retention_ms=9)
    assert await alter(client, (BROKER, "", ("log.retention.ms", SET, "7"))) == FINE
    assert (node.log("t").settings.retention_ms, node.log("own").settings.retention_ms) == (7, 9)
    assert await alter(client, (BROKER, "1", ("log.retention.ms", SET, "8"))) == FINE
    assert node.log("t").settings.retention_ms == 8
    await node.restart()
    assert node.log("t").settings.retention_ms == 8, "the metadata log gives it again"
    client = await node.client()
    assert await alter(client, (BROKER, "1", ("log.retention.ms", DELETE, None))) == FINE
    assert node.log("t").settings.retention_ms == 7


@simulated()
async def test_the_limit_of_connections_changes_while_the_node_runs(node):
    client = await node.client()
    assert await alter(client, (BROKER, "1", ("max.connections", SET, "2"))) == FINE
    assert node.server.limits.total == 2


@simulated()
async def test_the_cluster_s_min_insync_replicas_counts_at_once(node):
    client = await node.client()
    await create_topic(client)
    assert await alter(client, (BROKER, "", ("min.insync.replicas", SET, "2"))) == FINE
    assert (await produce(client, "t", records(b"x"), acks=-1)).error_code is ErrorCode.none, (
        "one replica is all it has"
    )
    assert node.log("t").settings.min_insync_replicas == 2


@simulated()
async def test_groups_and_client_metrics_keep_what_they_are_given(node):
    client = await node.client()
    group = (GROUP, "g", ("consumer.session.timeout.ms", SET, "46000"))
    metrics = (CLIENT_METRICS, "m", ("interval.ms", SET, "1000"))
    assert await alter(client, group, metrics) == FINE * 2
    await node.restart()
    client = await node.client()
    assert (await describe(client, GROUP, "g"))["consumer.session.timeout.ms"] == ("46000", 8)
    assert (await describe(client, CLIENT_METRICS, "m"))["interval.ms"] == ("1000", 7)


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "t", ("foo", SET, "1")), ErrorCode.invalid_config, "Unknown topic config name: foo"),
        (
            (TOPIC, "t", ("retention.ms", SET, "1"), ("retention.ms", SET, "1")),
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
        (
            (TOPIC, "t", ("retention.ms", SET, None), ("segment.ms", APPEND, None)),
            ErrorCode.invalid_request,
            "Null value not supported for : retention.ms, segment.ms",
        ),
        (
            (TOPIC, "t", ("retention.ms", 9, "5")),
            ErrorCode.invalid_request,
            "Unknown operation on a setting: 9 is not a valid Operation",
        ),
        ((3, "t"), ErrorCode.invalid_request, "Unknown resource type 3"),
        ((BROKER, "2"), ErrorCode.invalid_request, "Unexpected broker id, expected 1, but received 2"),
        (
            (BROKER, "1", ("num.partitions", SET, "4")),
            ErrorCode.invalid_request,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            (BROKER, "1", ("min.insync.replicas", SET, "1")),
            ErrorCode.invalid_config,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
    ],
)
@simulated()
async def test_what_is_wrong_is_refused_in_kafka_s_words(node, resource, code, message):
    client = await node.client()
    await create_topic(client)
    right = (
        (TOPIC, "t", ("flush.ms", SET, "5"))
        if resource[0] != TOPIC
        else (BROKER, "", ("log.flush.interval.ms", SET, "5"))
    )
    assert await alter(client, resource, right) == [(code, message), *FINE], "the other change is made all the same"
    assert node.log("t").settings.flush_ms == 5


@simulated()
async def test_a_resource_that_is_named_twice_is_not_changed(node):
    client = await node.client()
    await create_topic(client)
    change = (TOPIC, "t", ("retention.ms", SET, "5"))
    refused = (ErrorCode.invalid_request, "Each resource must appear at most once.")
    assert await alter(client, change, (BROKER, "", ("log.flush.interval.ms", SET, "5")), change) == [
        refused,
        *FINE,
        refused,
    ]
    assert node.log("t").settings.retention_ms == 604_800_000


@simulated()
async def test_levels_of_loggers_change_and_go_back(node):
    client = await node.client()
    name = "esp.broker.controller_client.lifecycle"
    before = (await describe(client, BROKER_LOGGER, "1", name))[name]
    assert await alter(client, (BROKER_LOGGER, "1", (name, SET, "ERROR")), validate_only=True) == FINE
    assert (await describe(client, BROKER_LOGGER, "1", name))[name] == before
    assert await alter(client, (BROKER_LOGGER, "1", (name, SET, "ERROR"))) == FINE
    assert (await describe(client, BROKER_LOGGER, "1", name))[name] == ("ERROR", 6)
    assert await alter(client, (BROKER_LOGGER, "1", (name, DELETE, None))) == FINE
    assert (await describe(client, BROKER_LOGGER, "1", name))[name] == before
    refused = await alter(client, (BROKER_LOGGER, "2", (name, SET, "ERROR")))
    assert refused == [(ErrorCode.invalid_request, "Unexpected node id. Expected 1, but received 2")]
