import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.config_requests import BROKER, BROKER_LOGGER, SET, TOPIC, alter, describe, replace
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import simulated

FINE = [(ErrorCode.none, None)]


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_settings_that_are_not_named_go(node, version):
    client = await node.client()
    await create_topic(client, retention_ms=5, flush_ms=6)
    assert await replace(client, (TOPIC, "t", {"flush.ms": "7"}), version=version) == FINE
    assert (node.log("t").settings.retention_ms, node.log("t").settings.flush_ms) == (604_800_000, 7)


@simulated()
async def test_what_is_only_checked_changes_nothing(node):
    client = await node.client()
    await create_topic(client, retention_ms=5)
    assert await replace(client, (TOPIC, "t", {}), validate_only=True) == FINE
    assert node.log("t").settings.retention_ms == 5


@simulated()
async def test_all_brokers_keep_their_min_insync_replicas(node):
    client = await node.client()
    await alter(client, (BROKER, "", ("log.retention.ms", SET, "5")))
    [(code, message)] = await replace(client, (BROKER, "", {}))
    assert (code, message) == (
        ErrorCode.invalid_config,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    assert await replace(client, (BROKER, "", {"min.insync.replicas": "1"})) == FINE
    assert list(await describe(client, BROKER, "")) == ["min.insync.replicas"]


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        ((BROKER_LOGGER, "1", {"root": "DEBUG"}), "Unknown resource type 8"),
        ((TOPIC, "t", {"retention.ms": None}), "Null value not supported for : retention.ms"),
        ((BROKER, "1", {"num.partitions": "1"}), "Cannot update these configs dynamically: [num.partitions]"),
    ],
)
@simulated()
async def test_what_is_wrong_is_refused_in_kafka_s_words(node, resource, message):
    assert await replace(await node.client(), resource) == [(ErrorCode.invalid_request, message)]
