import asyncio

import pytest

from esp.broker.waiting import Waiters, time_limit
from tests.unit.broker.played_server import in_world


def now():
    return asyncio.get_running_loop().time()


@in_world
async def test_the_time_limit_ends_what_is_awaited(world):
    with pytest.raises(TimeoutError):
        async with time_limit(world.env.clock, 300):
            await asyncio.sleep(10)
    assert now() == pytest.approx(0.3)


@in_world
async def test_what_is_done_in_time_is_not_disturbed(world):
    async with time_limit(world.env.clock, 300):
        await asyncio.sleep(0.2)
    await asyncio.sleep(1)


@in_world
async def test_a_limit_of_the_past_is_one_of_now(world):
    with pytest.raises(TimeoutError):
        async with time_limit(world.env.clock, -5):
            await asyncio.sleep(10)
    assert now() == 0


@in_world
async def test_waiters_go_on_in_order_when_they_are_woken_or_after_their_limit(world):
    waiters = Waiters(world.env.clock)
    seen = []

    async def wait(name, limit_us):
        await waiters.wait(limit_us)
        seen.append((name, round(now(), 3)))

    tasks = [
        asyncio.get_running_loop().create_task(wait(name, limit_us))
        for name, limit_us in [("a", 5_000_000), ("b", 100_000), ("c", 5_000_000)]
    ]
    await asyncio.sleep(1)
    waiters.wake()
    for task in tasks:
        await task
    assert seen == [("b", 0.1), ("a", 1.0), ("c", 1.0)]
    assert not waiters._waiting


@in_world
async def test_who_was_woken_leaves_no_timer_behind(world):
    waiters = Waiters(world.env.clock)
    waiting = asyncio.get_running_loop().create_task(waiters.wait(5_000_000))
    await asyncio.sleep(0.1)
    waiters.wake()
    await waiting
    async with time_limit(world.env.clock, 5_000):
        pass
    assert all(
        timer.cancelled() for *_, timer in world.loop._scheduled if timer.when() > now() + 1 and timer.when() < 100
    )


@in_world
async def test_who_is_cancelled_is_not_waited_for(world):
    waiters = Waiters(world.env.clock)
    task = asyncio.get_running_loop().create_task(waiters.wait(5_000_000))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not waiters._waiting
    waiters.wake()
