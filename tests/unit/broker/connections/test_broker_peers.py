"""Other brokers are called at the address that they have, by one connection each."""

import datetime as dt

import pytest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.connections.peer import PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_server import in_world

REQUEST = AddPartitionsToTxnRequest(transactions=())
ANSWER = AddPartitionsToTxnResponse(throttle_time=dt.timedelta(), error_code=ErrorCode.none, results_by_transaction=())
PLACES = [Address("127.0.0.1", port) for port in (9101, 9102)]
TWO = NodeId(2)


async def peers_of(world, addresses, answer=lambda _message: ANSWER):
    servers = [await world.server(place, add_partitions_to_txn=answer) for place in PLACES]
    return BrokerPeers(world.env, addresses.get, client_id="test", terms=PLAINTEXT), servers


async def call(peers):
    return await peers.find(TWO).call(ApiKey.ADD_PARTITIONS_TO_TXN, REQUEST, timeout_ms=1000)


@in_world
async def test_broker_has_one_connection_until_it_has_another_address(world):
    addresses = {TWO: PLACES[0]}
    peers, servers = await peers_of(world, addresses)
    for _ in range(3):
        assert await call(peers) == ANSWER
    assert [server.accepted for server in servers] == [1, 0]
    addresses[TWO] = PLACES[1]
    for _ in range(3):
        assert await call(peers) == ANSWER
    assert [server.accepted for server in servers] == [1, 1]
    addresses.clear()
    with pytest.raises(PeerUnavailableError, match="has no address"):
        peers.find(TWO)
    peers.close()


@in_world
async def test_calls_of_brokers_that_are_gone_end_at_once(world):
    peers, _ = await peers_of(world, {TWO: PLACES[0]}, lambda _message: None)
    calling = world.loop.create_task(call(peers))
    await world.env.clock.sleep_us(100_000)
    peers.retain({TWO})
    await world.env.clock.sleep_us(100_000)
    assert not calling.done()
    peers.retain(())
    with pytest.raises(PeerUnavailableError):
        await calling
    assert world.loop.time() < 0.5
    peers.close()


@in_world
async def test_no_broker_is_called_after_the_end(world):
    peers, servers = await peers_of(world, {TWO: PLACES[0]})
    peers.close()
    with pytest.raises(PeerUnavailableError, match="closed"):
        await call(peers)
    assert servers[0].accepted == 0
