import asyncio
import datetime as dt

import pytest
from kio.schema.allocate_producer_ids.v0.response import AllocateProducerIdsResponse

from esp.broker.controller_client.producer_ids import ProducerIdBlocks, ProducerIds
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.protocol.registry import ApiKey


async def test_every_id_of_a_block_is_given_once_before_the_next_block_is_asked_for():
    blocks = iter([range(3), range(1000, 1003)])
    asked = 0

    async def allocate() -> range:
        nonlocal asked
        asked += 1
        return next(blocks)

    ids = ProducerIds(allocate)
    assert ids.next_now() is None
    assert [await ids.next() for _ in range(3)] == [0, 1, 2]
    assert asked == 1
    assert [await ids.next() for _ in range(3)] == [1000, 1001, 1002]


async def test_callers_that_wait_together_never_get_the_same_id():
    starts = iter(range(0, 10_000, 2))

    async def allocate() -> range:
        start = next(starts)
        await asyncio.sleep(0)
        return range(start, start + 2)

    ids = ProducerIds(allocate)
    given = await asyncio.gather(*(ids.next() for _ in range(50)))
    assert len(set(given)) == 50


class Controller:
    def __init__(self, answer):
        self.answer = answer
        self.seen = []

    async def call(self, api_key, message, *, timeout_ms):
        self.seen.append((api_key, message.broker_id, message.broker_epoch))
        if isinstance(self.answer, ApiError):
            raise self.answer
        return AllocateProducerIdsResponse(
            throttle_time=dt.timedelta(0), error_code=self.answer, producer_id_start=4000, producer_id_len=1000
        )


async def test_blocks_come_from_the_controller_for_the_present_registration():
    controller = Controller(ErrorCode.none)
    epochs = iter([BrokerEpoch(7), BrokerEpoch(9)])
    blocks = ProducerIdBlocks(controller, NodeId(3), lambda: next(epochs))
    assert await blocks.allocate() == range(4000, 5000)
    await blocks.allocate()
    assert controller.seen == [(ApiKey.ALLOCATE_PRODUCER_IDS, 3, 7), (ApiKey.ALLOCATE_PRODUCER_IDS, 3, 9)]


@pytest.mark.parametrize("answer", [ErrorCode.stale_broker_epoch, ApiError(ErrorCode.request_timed_out)])
async def test_without_a_block_the_producer_is_told_to_ask_again(answer):
    ids = ProducerIds(ProducerIdBlocks(Controller(answer), NodeId(3), lambda: BrokerEpoch(7)).allocate)
    with pytest.raises(ApiError) as error:
        await ids.next()
    assert error.value.code is ErrorCode.coordinator_load_in_progress
