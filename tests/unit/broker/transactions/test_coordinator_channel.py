"""Coordinators of transactions are asked at the address that they have."""

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
PLACE = Address("127.0.0.1", 9101)


@in_world
async def test_coordinator_is_called_until_the_channel_is_closed(world):
    await world.server(PLACE, add_partitions_to_txn=lambda _message: ANSWER)
    addresses = {NodeId(2): PLACE}
    channel = CoordinatorChannel(
        world.env, NodeId(1), SimpleNamespace(), addresses.get, SimpleNamespace(), terms=PLAINTEXT
    )
    assert await channel.call(NodeId(2), REQUEST) == ANSWER
    with pytest.raises(PeerUnavailableError, match="has no address"):
        await channel.call(NodeId(3), REQUEST)
    channel.close()
    with pytest.raises(PeerUnavailableError, match="closed"):
        await channel.call(NodeId(2), REQUEST)
