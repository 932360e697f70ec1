"""Coordinators of transactions are asked at the address that they have, by one connection each."""

import datetime as dt
from types import SimpleNamespace

import pytest
from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.transactions.coordinator_channel import CoordinatorChannel
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from tests.unit.broker.played_server import in_world

REQUEST = AddPartitionsToTxnRequest(transactions=())
ANSWER = AddPartitionsToTxnResponse(throttle_time=dt.timedelta(), error_code=ErrorCode.none, results_by_transaction=())


@in_world
async def test_a_coordinator_has_one_connection_until_it_has_another_address(world):
    places = [Address("127.0.0.1", port) for port in (9101, 9102)]
    servers = [await world.server(place, add_partitions_to_txn=lambda _message: ANSWER) for place in places]
    addresses = {NodeId(2): places[0]}
    channel = CoordinatorChannel(
        world.env, NodeId(1), SimpleNamespace(), addresses.get, SimpleNamespace(), terms=PLAINTEXT
    )
    for _ in range(3):
        assert await channel.call(NodeId(2), REQUEST) == ANSWER
    assert [server.accepted for server in servers] == [1, 0]
    addresses[NodeId(2)] = places[1]
    for _ in range(3):
        assert await channel.call(NodeId(2), REQUEST) == ANSWER
    assert [server.accepted for server in servers] == [1, 1]
    addresses.clear()
    with pytest.raises(PeerUnavailableError, match="has no address"):
        await channel.call(NodeId(2), REQUEST)
    channel.close()
