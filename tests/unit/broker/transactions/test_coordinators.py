"""What all coordinators of a node share."""

import asyncio

from esp.model.errors import ErrorCode
from esp.simulation.nodes_tier.late_epochs import late_epochs
from esp.transactions.transaction import EPOCH_MAX
from tests.unit.broker.transaction_conversation import end, init, with_transactions


@with_transactions()
async def test_a_node_without_producer_ids_gets_some_when_a_transaction_ends_with_the_last_epoch(node, client):
    """TXN-3: nobody else may ask for an id, and until there is one the transaction cannot end."""
    with late_epochs(EPOCH_MAX):
        given = await init(client)
    producer = (given.producer_id, given.producer_epoch)
    producer_ids = node.node.broker.dispatcher._services.producer_ids
    while producer_ids.next_now() is not None:
        pass
    assert (await end(client, producer, commit=False)).error_code is ErrorCode.coordinator_load_in_progress
    await asyncio.sleep(1)
    ended = await end(client, producer, commit=False)
    assert ended.error_code is ErrorCode.none
    assert ended.producer_id not in (-1, given.producer_id)
    assert ended.producer_epoch == 0
