"""Quotas at a whole node: set, felt by every way that a request takes, and removed."""

import asyncio
import subprocess
import sys

import pytest

from esp.model.client_quotas import CLIENT_KEYS, REQUEST_PERCENTAGE
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.settings.addresses import MetricsListener
from tests.unit.broker.conversation import (
    create_topic,
    fetch,
    fetch_request,
    metadata,
    ms,
    of_one_partition,
    produce_later,
    produce_request,
)
from tests.unit.broker.metrics.test_node_metrics import _scrape
from tests.unit.broker.simulated_node import model, records, simulated

BATCH = records(b"x" * 4_000)


async def alter(client, entity, **quotas):
    """Set quotas of an entity; None removes one."""
    types = model(ApiKey.ALTER_CLIENT_QUOTAS, 1)
    entry = types.EntryData(
        entity=tuple(types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(
            types.OpData(key=key, value=float(value or 0), remove=value is None) for key, value in quotas.items()
        ),
    )
    answer = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, types.Request(entries=(entry,), validate_only=False))
    (result,) = answer.entries
    assert result.error_code is ErrorCode.none, result


def now():
    return asyncio.get_running_loop().time()


@simulated()
async def test_repeated_requests_are_throttled_like_the_first(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    await alter(administrator, {"client-id": "test"}, producer_byte_rate=1_000)
    told = []
    for _ in range(4):
        answer = await produce_later(client, "t", BATCH)
        assert of_one_partition(answer).error_code is ErrorCode.none
        told.append(answer.throttle_time)
        if answer.throttle_time > ms(0):
            break
    size = node.log("t").log_end_offset
    assert size == 3
    assert told[:2] == [ms(0), ms(0)]
    assert ms(2_000) < told[2] < ms(3_000)  # 12,000 bytes and what is around them, of 10,000
    begun = now()
    await fetch(client, "t")
    assert told[2].total_seconds() - 0.01 < now() - begun < told[2].total_seconds() + 0.1


@simulated()
async def test_a_quota_that_is_removed_lets_its_client_go_on(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    await alter(administrator, {"user": None}, producer_byte_rate=1)
    assert (await produce_later(client, "t", BATCH)).throttle_time > ms(4_000_000)
    waiting = produce_later(client, "t", BATCH)
    await asyncio.sleep(60)
    assert not waiting.done()
    await alter(administrator, {"user": None}, producer_byte_rate=None)
    assert (await waiting).throttle_time == ms(0)


@pytest.mark.parametrize("kind", ["user", "client-id"])
@pytest.mark.parametrize("name", ["<default>", "a=b,c:d/e", " ", "\0\n\x1b[31m", "\u202eé😀", "x" * 30_000])
def test_entities_of_any_name_keep_it_also_after_a_restart(kind, name):
    @simulated()
    async def test(node):
        await alter(await node.client(), {kind: name}, producer_byte_rate=1_000)
        for _ in range(2):
            types = model(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1)
            asked = types.ComponentData(entity_type=kind, match_type=0, match=name)
            client = await node.client()
            answer = await client.call(
                ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, types.Request(components=(asked,), strict=True)
            )
            [entry] = answer.entries
            assert [(part.entity_type, part.entity_name) for part in entry.entity] == [(kind, name)]
            assert [(value.key, value.value) for value in entry.values] == [("producer_byte_rate", 1_000)]
            await node.restart()

    test()


@pytest.mark.parametrize(("parts", "quotas"), [(1, 101), (101, 1)])
def test_more_quotas_or_parts_of_an_entity_than_there_are_refuse_the_request(parts, quotas):
    @simulated()
    async def test(node):
        types = model(ApiKey.ALTER_CLIENT_QUOTAS, 1)
        entry = types.EntryData(
            entity=tuple(types.EntityData(entity_type=f"user{number}", entity_name="a") for number in range(parts)),
            ops=tuple(types.OpData(key=f"k{number}", value=0.0, remove=True) for number in range(quotas)),
        )
        client = await node.client()
        answer = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, types.Request(entries=(entry,), validate_only=False))
        [result] = answer.entries
        assert result.error_code is ErrorCode.invalid_request
        assert result.error_message == "101 elements are more than 100"

    test()


@pytest.mark.parametrize("key", CLIENT_KEYS)
def test_the_smallest_quota_holds_its_client_and_harms_no_other(key):
    """A quota is any number above zero; the throttle times that come of this one are too long for a number of milliseconds."""

    @simulated()
    async def test(node):
        administrator = await node.client()
        await create_topic(administrator, "t")
        await alter(administrator, {"client-id": "held"}, **{key: 5e-324})
        types = model(ApiKey.CREATE_TOPICS, 5)
        requests = (
            (ApiKey.PRODUCE, 12, produce_request([("t", 0, BATCH)])),
            (ApiKey.FETCH, 12, fetch_request([("t", 0, 0)])),
            (
                ApiKey.CREATE_TOPICS,
                5,
                types.Request(
                    topics=tuple(
                        types.CreatableTopic(
                            name=f"u{number}", num_partitions=1, replication_factor=1, assignments=(), configs=()
                        )
                        for number in range(2)
                    ),
                    timeout=ms(1000),
                    validate_only=False,
                ),
            ),
        )
        told = []
        for request in requests:
            client = await node.client()
            told.append((await client.send(*request, client_id="held")).throttle_time)
        if key != REQUEST_PERCENTAGE:  # virtual time does not go on while a request is handled
            assert ms(2**31 - 1_000) < max(told) <= ms(2**31 - 1)
        assert (await metadata(administrator)).brokers

    test()


@simulated()
async def test_a_consumer_gets_a_batch_beyond_its_quota_and_waits_for_it(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    for _ in range(2):
        await produce_later(administrator, "t", BATCH)
    await alter(administrator, {"client-id": "test"}, consumer_byte_rate=100)
    assert (await fetch(client, "t", partition_max_bytes=100)).records
    begun = now()
    partition = None
    while partition is None or not partition.records:
        try:
            partition = await fetch(client, "t", 1, partition_max_bytes=100)
        except ValueError:  # an answer without partitions
            partition = None
    assert 25 < now() - begun < 60  # 4,000 bytes at 100 a second, of which ten seconds come at once


@simulated(metrics_listener=MetricsListener("127.0.0.1", 9308))
async def test_metrics_tell_whom_quotas_hold(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    assert (await _scrape(node))["esp_throttled_connections",] == 0
    await alter(administrator, {"client-id": None}, producer_byte_rate=100)
    answer = await produce_later(client, "t", BATCH)
    told = await _scrape(node)
    assert told["esp_throttled_connections",] == 1
    labels = ("client-id=<default>", "producer_byte_rate")
    assert told["esp_quota_throttles_total", *labels] == 1
    assert told["esp_quota_throttle_seconds_total", *labels] == answer.throttle_time.total_seconds()


def test_a_node_without_quotas_loads_none_of_it():
    program = """
import sys
from esp.broker.app import BrokerNode
from esp.broker.quotas.switch import QuotaSwitch
from esp.controller.image import ClusterDelta, ClusterImage
QuotaSwitch().follow(ClusterImage(), ClusterDelta())
print(*sorted(name for name in sys.modules if "quotas" in name.split(".")))
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["esp.broker.quotas", "esp.broker.quotas.switch"]


async def held(client, version=1, **asked):
    types = model(ApiKey.DESCRIBE_CLIENT_QUOTAS, version)
    answer = await client.call(
        ApiKey.DESCRIBE_CLIENT_QUOTAS, version, types.Request(components=(), strict=True, **asked)
    )
    assert answer.entries == (), "the quota is of a default, and strict asks for none"
    return answer.held if version else None


@simulated()
async def test_whoever_asks_is_told_whom_the_node_holds_now(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    assert await held(administrator, with_held=True) == ()
    await alter(administrator, {"client-id": None}, producer_byte_rate=1_000)
    throttle_time = ms(0)
    while throttle_time == ms(0):
        throttle_time = (await produce_later(client, "t", BATCH)).throttle_time
    assert await held(administrator) is None, (
        "an answer has the field only if it is asked for: some clients skip no tags"
    )
    await held(administrator, version=0)
    [one] = await held(administrator, with_held=True)
    assert (one.key, one.user, one.client_id, one.connections) == ("producer_byte_rate", "ANONYMOUS", "test", 1)
    assert [(part.entity_type, part.entity_name) for part in one.entity] == [("client-id", None)]
    assert ms(0) < one.left <= throttle_time
    await asyncio.sleep(throttle_time.total_seconds())
    assert await held(administrator, with_held=True) == ()


@simulated()
async def test_a_client_that_has_gone_is_not_held(node):
    client, administrator = await node.client(), await node.client()
    await create_topic(administrator, "t")
    await alter(administrator, {"client-id": None}, producer_byte_rate=1)
    await produce_later(client, "t", BATCH)
    assert await held(administrator, with_held=True)
    client.close()
    await asyncio.sleep(1)
    assert await held(administrator, with_held=True) == ()
