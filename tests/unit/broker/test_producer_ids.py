import asyncio

from esp.broker.producer_ids import ProducerIds


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
