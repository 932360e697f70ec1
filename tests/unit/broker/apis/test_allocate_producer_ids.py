from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import simulated


@simulated()
async def test_blocks_follow_each_other(node):
    broker = await PlayedBroker(node, 7).start()
    fields = {"broker_id": 7, "broker_epoch": broker.epoch}
    first = await broker.call(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **fields)
    second = await broker.call(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **fields)
    assert (first.error_code, first.producer_id_len) == (ErrorCode.none, 1000)
    assert second.producer_id_start == first.producer_id_start + 1000
    stale = await broker.call(ApiKey.ALLOCATE_PRODUCER_IDS, 0, **fields | {"broker_epoch": broker.epoch + 1})
    assert (stale.error_code, stale.producer_id_len) == (ErrorCode.stale_broker_epoch, 0)
