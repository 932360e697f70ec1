"""Turns of connections that receive large frames."""

import asyncio

from esp.runtime.transfer_turns import TransferTurns


async def test_one_goes_on_in_each_turn_and_all_in_the_order_of_their_coming() -> None:
    turns = TransferTurns()
    went_on: list[int] = []
    for number in range(5):
        turns.wait(lambda number=number: went_on.append(number))  # type: ignore[misc]
    for turn in range(6):
        assert went_on == list(range(turn))[:5]
        await asyncio.sleep(0)
    assert went_on == list(range(5))


async def test_who_waits_again_in_its_turn_comes_after_all_others() -> None:
    turns = TransferTurns()
    went_on: list[str] = []

    def greedy() -> None:
        went_on.append("greedy")
        if len(went_on) < 9:
            turns.wait(greedy)

    turns.wait(greedy)
    for name in ("first", "second", "third"):
        turns.wait(lambda name=name: went_on.append(name))  # type: ignore[misc]
    for _ in range(5):
        await asyncio.sleep(0)
    assert went_on == ["greedy", "first", "second", "third", "greedy"]


async def test_who_is_alone_goes_on_once_in_each_turn_however_often_it_waits() -> None:
    turns = TransferTurns()
    went_on: list[int] = []

    def greedy() -> None:
        went_on.append(len(went_on))
        if len(went_on) < 4:
            turns.wait(greedy)

    turns.wait(greedy)
    for turn in range(1, 7):
        await asyncio.sleep(0)
        assert went_on == list(range(min(turn, 4)))
