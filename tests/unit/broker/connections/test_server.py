import asyncio

import pytest

from esp.broker.connections.connection_limits import ConnectionLimits
from esp.broker.connections.server import Server
from esp.model.errors import ErrorCode, OperatorError
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.settings.addresses import Listener
from tests.unit.broker.config_requests import BROKER, SET, alter
from tests.unit.broker.conversation import create_topic, fetch_later, metadata
from tests.unit.broker.quotas.test_quotas_of_a_node import alter as alter_quotas
from tests.unit.broker.simulated_node import RefusedError, model, simulated


@simulated(max_connections=2)
async def test_connections_over_the_limit_are_ended_and_the_place_of_one_that_ends_is_free(node):
    first, second = await node.client(), await node.client()
    third = await node.client()
    await asyncio.sleep(0.1)
    assert third.closed
    assert not second.closed
    first.close()
    await asyncio.sleep(0.1)
    assert (await metadata(await node.client())).brokers


@simulated(max_connections_per_ip=1)
async def test_connections_of_one_address_over_its_limit_are_ended(node):
    first = await node.client()
    second = await node.client()
    await asyncio.sleep(0.1)
    assert second.closed
    first.close()
    await asyncio.sleep(0.1)
    third = await node.client()
    assert (await metadata(third)).brokers
    third.close()
    await asyncio.sleep(0.1)
    assert not node.server.counts.addresses, "nothing is kept of addresses without a connection"


TWO_LISTENERS = {
    "listeners": (
        Listener("PLAINTEXT", "127.0.0.1", 9092),
        Listener("BROKERS", "127.0.0.1", 9093),
        Listener("CONTROLLER", "127.0.0.1", 0),
    ),
    "inter_broker_listener_name": "BROKERS",
}
BROKERS = Address("127.0.0.1", 9093)


@simulated(**TWO_LISTENERS, max_connections=2, connections_max_idle_ms=10_000)
async def test_another_broker_gets_the_place_of_the_client_that_is_idle_for_longest(node):
    """KIP-402: clients that take all connections would end the replication."""
    busy, idle = await node.client(), await node.client()
    await asyncio.sleep(6)
    await metadata(busy)
    broker = await node.client(BROKERS)
    assert (await metadata(broker)).cluster_id
    assert idle.closed
    refused = await node.client()
    await asyncio.sleep(0.1)
    assert refused.closed
    assert (await metadata(busy)).brokers
    assert (await metadata(broker)).cluster_id


@simulated(max_connection_creation_rate=2)
async def test_connections_that_an_address_may_not_open_keep_no_others_waiting(node):
    """As in Kafka: what is refused for the rate of its address counts for no other rate."""
    administrator = await node.client()
    await alter_quotas(administrator, {"ip": "127.0.0.1"}, connection_creation_rate=1)
    for _ in range(100):
        await node.client()
    await alter_quotas(administrator, {"ip": "127.0.0.1"}, connection_creation_rate=None)
    begun = asyncio.get_running_loop().time()
    assert (await metadata(await node.client())).brokers
    assert asyncio.get_running_loop().time() - begun < 0.5


@simulated(max_connections=1, max_connection_creation_rate=1)
async def test_connections_above_a_number_count_for_the_rates(node):
    """As in Kafka. It costs something to end them: a flood of them is slowed down."""
    kept = await node.client()
    begun = asyncio.get_running_loop().time()
    for _ in range(30):
        await node.client()
        await asyncio.sleep(0.01)
    assert node.server._listeners["PLAINTEXT"].paused_until_s > begun
    assert not kept.closed


@simulated(connections_max_idle_ms=10_000)
async def test_idle_connections_are_ended_between_one_and_one_and_a_half_times_the_limit(node):
    idle, busy = await node.client(), await node.client()
    for _ in range(10):
        await asyncio.sleep(1)
        await metadata(busy)
    assert not idle.closed
    for _ in range(6):
        await asyncio.sleep(1)
        await metadata(busy)
    assert idle.closed
    assert not busy.closed


@simulated(connections_max_idle_ms=-1)
async def test_without_a_limit_nobody_is_idle_for_too_long(node):
    client = await node.client()
    await asyncio.sleep(3000)
    assert (await metadata(client)).brokers


@simulated()
async def test_closing_ends_all_connections_and_accepts_no_more(node):
    client = await node.client()
    await create_topic(client)
    waiting = fetch_later(client, [("t", 0, 0)], max_wait_ms=30_000)
    await asyncio.sleep(0.1)
    await node.server.close()
    with pytest.raises(RefusedError):
        await waiting
    with pytest.raises(ConnectionRefusedError):
        await node.client()
    assert not node.server._sessions


@simulated(socket_request_max_bytes=1000)
async def test_a_frame_over_the_limit_ends_its_connection_and_no_other(node):
    good, bad = await node.client(), await node.client()
    types = model(ApiKey.METADATA, 1)
    with pytest.raises(RefusedError):
        await bad.call(
            ApiKey.METADATA,
            1,
            types.Request(
                topics=(types.MetadataRequestTopic(topic_id=None, name="t" * 1000),),
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=False,
            ),
        )
    assert (await metadata(good)).brokers


@simulated()
async def test_a_connection_that_ends_before_the_node_is_open_is_forgotten(node):
    limits = ConnectionLimits(10, 10, -1, 1000)
    server = Server(node.env, node.server._dispatcher, limits)
    address = await server.listen("OTHER", Address("127.0.0.1", 0))
    gone, kept = await node.client(address), await node.client(address)
    waiting = asyncio.ensure_future(metadata(kept))
    await asyncio.sleep(1)
    assert not waiting.done()
    gone.close()
    await asyncio.sleep(1)
    server.open()
    assert (await waiting).cluster_id
    assert len(server._sessions) == 1


@simulated()
async def test_an_address_that_is_taken_is_the_operators_to_mend(node):
    limits = ConnectionLimits(10, 10, -1, 1000)
    server = Server(node.env, node.server._dispatcher, limits)
    with pytest.raises(OperatorError, match=r"Cannot listen on X://127.0.0.1:9092: Address already in use"):
        await server.listen("X", Address("127.0.0.1", 9092))


@simulated()
async def test_limits_of_listeners_change_for_clients_and_for_controllers_while_the_node_runs(node):
    client = await node.client()
    wanted = {f"listener.name.{name}.max.connections": "2" for name in ("plaintext", "controller")}
    operations = [(name, SET, value) for name, value in wanted.items()]
    assert await alter(client, (BROKER, "1", *operations)) == [(ErrorCode.none, None)]
    assert node.node.controller.server.limits.of_listeners["CONTROLLER"].max_connections == 2
    second, third = await node.client(), await node.client()
    await asyncio.sleep(0.1)
    assert third.closed
    assert not second.closed
