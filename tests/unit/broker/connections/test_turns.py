"""Turns of those with long work: counted in rounds of the loop, never in time."""

import asyncio

import pytest

from esp.broker.connections.turns import Turns


async def test_one_goes_on_in_each_round_in_the_order_of_coming() -> None:
    turns = Turns()
    went_on: list[int] = []
    for number in range(5):
        turns.call(lambda number=number: went_on.append(number))  # type: ignore[misc]
    for done in range(6):
        assert went_on == list(range(done))[:5]
        await asyncio.sleep(0)
    assert went_on == list(range(5))


async def test_who_has_much_to_do_takes_turns_with_the_others() -> None:
    turns = Turns()
    log: list[str] = []

    def work(name: str, slices: int):  # type: ignore[no-untyped-def]
        for _ in range(slices):
            log.append(name)
            yield
        return name

    results = await asyncio.gather(turns.run(work("long", 4)), turns.run(work("short", 1)), turns.run(work("none", 0)))
    assert results == ["long", "short", "none"]
    assert log == ["long", "short", "long", "long", "long"]


async def test_what_the_work_raises_reaches_who_waits_for_it() -> None:
    def work():  # type: ignore[no-untyped-def]
        yield
        raise ValueError("bad bytes")

    with pytest.raises(ValueError, match="bad bytes"):
        await Turns().run(work())


async def test_who_was_cancelled_costs_the_others_one_round() -> None:
    turns = Turns()
    gone = asyncio.create_task(turns.wait())
    there = asyncio.create_task(turns.wait())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait_for(there, 10)
    assert gone.cancelled()
