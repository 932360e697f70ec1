"""Turns of those with long work: counted in rounds of the loop, and by a clock that moves when work is done."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from esp.broker.turns.turns import ROUND_US, SLICES_MAX, TURN_US, Turns


class PlayedClock:
    def __init__(self) -> None:
        self.now_us = 0

    def monotonic_us(self) -> int:
        return self.now_us


def new_turns(clock: Any = None) -> Turns:
    return Turns(clock or PlayedClock())


async def test_one_goes_on_in_each_round_in_the_order_of_coming() -> None:
    turns = new_turns()
    went_on: list[int] = []
    for number in range(5):
        turns.call(lambda number=number: went_on.append(number))  # type: ignore[misc]
    for done in range(6):
        assert went_on == list(range(done))[:5]
        await asyncio.sleep(0)
    assert went_on == list(range(5))


async def test_who_has_much_to_do_takes_turns_with_the_others() -> None:
    clock = PlayedClock()
    turns = new_turns(clock)
    log: list[str] = []

    def work(name: str, slices: int) -> Generator[None, None, str]:
        for _ in range(slices):
            log.append(name)
            clock.now_us += TURN_US
            yield
        return name

    results = await asyncio.gather(turns.run(work("long", 4)), turns.run(work("short", 1)), turns.run(work("none", 0)))
    assert results == ["long", "short", "none"]
    assert log == ["long", "short", "long", "long", "long"]


@pytest.mark.parametrize(
    ("slice_us", "slices"), [(0, SLICES_MAX), (1, SLICES_MAX), (TURN_US // 3, 4), (TURN_US // 2, 2), (10 * TURN_US, 1)]
)
async def test_a_turn_has_as_many_slices_as_fit_into_it(slice_us: int, slices: int) -> None:
    """Whoever else is there goes on after them: nobody has two turns in a round of the loop."""
    clock = PlayedClock()
    turns = new_turns(clock)
    done = 0

    def work() -> Generator[None]:
        nonlocal done
        for _ in range(3 * SLICES_MAX):
            done += 1
            clock.now_us += slice_us
            yield

    task = asyncio.create_task(turns.run(work()))
    seen: list[int] = []
    while not task.done():
        await asyncio.sleep(0)
        seen.append(done)
    steps = [after - before for before, after in zip([0, *seen], seen, strict=False)]
    assert max(steps) == slices


async def test_time_that_passed_while_nobody_worked_is_nobodys_turn() -> None:
    clock = PlayedClock()
    turns = new_turns(clock)
    await turns.wait()
    clock.now_us += TURN_US
    waiting = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    await waiting


async def test_what_the_work_raises_reaches_who_waits_for_it() -> None:
    def work() -> Generator[None]:
        yield
        raise ValueError("bad bytes")

    with pytest.raises(ValueError, match="bad bytes"):
        await new_turns().run(work())


async def test_who_was_cancelled_costs_the_others_one_round() -> None:
    turns = new_turns()
    gone = asyncio.create_task(turns.wait())
    there = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(there, 10)
    assert gone.cancelled()


async def test_short_work_has_time_until_its_round_of_the_loop_has_lasted_long() -> None:
    clock = PlayedClock()
    turns = new_turns(clock)
    for _ in range(2):
        assert turns.has_time()
        clock.now_us += ROUND_US - 1
        assert turns.has_time()
        clock.now_us += 1
        assert not turns.has_time()
        await asyncio.sleep(0)


async def test_a_round_in_which_nobody_asks_counts_for_nothing() -> None:
    clock = PlayedClock()
    turns = new_turns(clock)
    assert turns.has_time()
    await asyncio.sleep(0)
    clock.now_us += 10 * ROUND_US
    assert turns.has_time()
