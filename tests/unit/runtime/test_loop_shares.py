"""Shares of the loop by address: who has had more goes on in rounds, address by address."""

import asyncio

import pytest

from esp.runtime import loop_shares
from esp.runtime.loop_shares import (
    BURST_NS,
    DEBT_MAX_NS,
    LARGE_NS,
    QUARTER,
    ROUND_NS,
    ROUND_PIECES,
    AddressShare,
    LoopShares,
)

NOW_NS = 1_000_000_000


def test_nothing_is_counted_while_there_is_one_address() -> None:
    shares = LoopShares()
    first = shares.enter("one")
    assert shares.enter("one") is first
    assert not shares.is_shared
    second = shares.enter("two")
    assert shares.is_shared
    shares.leave(second)
    assert not shares.is_shared


def test_nothing_is_counted_of_what_the_node_asks_for_itself() -> None:
    shares = LoopShares(is_counted=False)
    shares.enter("one")
    shares.enter("two")
    assert not shares.is_shared


def test_an_address_has_a_burst_and_makes_up_for_it_in_four_times_as_long() -> None:
    share = AddressShare("one")
    assert not share.is_spent(NOW_NS)
    share.spend(NOW_NS, NOW_NS + 3 * BURST_NS)
    end_ns = NOW_NS + 3 * BURST_NS
    assert share.is_spent(end_ns)
    made_up_ns = NOW_NS + QUARTER * 3 * BURST_NS
    assert share.left_ns(end_ns) == made_up_ns - end_ns
    assert share.is_spent(made_up_ns - QUARTER * BURST_NS - 1)
    assert not share.is_spent(made_up_ns - QUARTER * BURST_NS)


def test_who_works_for_a_quarter_of_the_time_is_never_spent() -> None:
    share = AddressShare("one")
    for began_ns in range(NOW_NS, NOW_NS + 1000 * BURST_NS, BURST_NS):
        assert not share.is_spent(began_ns)
        share.spend(began_ns, began_ns + BURST_NS // QUARTER)


def test_no_more_than_so_much_is_held_against_an_address() -> None:
    share = AddressShare("one")
    share.spend(NOW_NS, 100 * NOW_NS)
    assert share.left_ns(100 * NOW_NS) == DEBT_MAX_NS


def test_small_pieces_wait_for_no_turn() -> None:
    share = AddressShare("one")
    began_ns = NOW_NS
    for _ in range(1000):
        share.spend(began_ns, began_ns + LARGE_NS)
        began_ns += LARGE_NS
        assert not share.is_spent(began_ns)
    for _ in range(2):
        share.spend(began_ns, began_ns + 20 * LARGE_NS)
        began_ns += 20 * LARGE_NS
    assert share.is_spent(began_ns), "which come to be larger on average"
    for _ in range(40):
        share.spend(began_ns, began_ns + LARGE_NS // 2)
        began_ns += LARGE_NS // 2
    assert not share.is_spent(began_ns), "and smaller again"


async def test_an_address_that_owes_is_remembered_after_its_last_connection() -> None:
    shares = LoopShares()
    shares.enter("other")
    share = shares.enter("one")
    began_ns = loop_shares.perf_counter_ns()
    share.spend(began_ns, began_ns + DEBT_MAX_NS)
    shares.leave(share)
    again = shares.enter("one")
    assert again is share
    shares.leave(again)
    async with asyncio.timeout(20):
        while shares.is_shared:  # noqa: ASYNC110 - time itself is waited for
            await asyncio.sleep(0.005)
    assert shares.enter("one") is not share


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_those_who_wait_go_on_address_by_address_and_each_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_shares, "perf_counter_ns", lambda: NOW_NS)  # no time passes
    shares = LoopShares()
    one, two = shares.enter("one"), shares.enter("two")
    went_on: list[str] = []
    for number in range(3):
        shares.wait(one, lambda number=number: went_on.append(f"one {number}"))  # type: ignore[misc]
    shares.wait(two, lambda: went_on.append("two 0"))
    assert went_on == []
    await rounds(2)
    assert went_on == ["one 0", "two 0", "one 1", "one 2"]


@pytest.mark.parametrize(("piece_ns", "expected"), [(0, ROUND_PIECES), (ROUND_NS // 2, 2), (ROUND_NS, 1)])
async def test_a_round_ends_after_its_time_or_its_number_of_pieces(
    monkeypatch: pytest.MonkeyPatch, piece_ns: int, expected: int
) -> None:
    now_ns = NOW_NS
    monkeypatch.setattr(loop_shares, "perf_counter_ns", lambda: now_ns)
    shares = LoopShares()
    share = shares.enter("one")
    went_on: list[int] = []

    def work() -> None:
        nonlocal now_ns
        now_ns += piece_ns
        went_on.append(now_ns)

    for _ in range(3 * ROUND_PIECES):
        shares.wait(share, work)
    others: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: others.append(len(went_on)))
    await rounds(1)
    assert len(went_on) == expected
    assert others == [expected], "whoever else wants the loop has it between two rounds"
    await rounds(3 * ROUND_PIECES)
    assert len(went_on) == 3 * ROUND_PIECES


async def test_who_waits_again_in_its_turn_comes_after_all_others_and_once_in_a_round() -> None:
    shares = LoopShares()
    greedy, other = shares.enter("greedy"), shares.enter("other")
    went_on: list[str] = []

    def again() -> None:
        went_on.append("greedy")
        if len(went_on) < 5:
            shares.wait(greedy, again)

    shares.wait(greedy, again)
    shares.wait(other, lambda: went_on.append("other"))
    await rounds(8)
    assert went_on == ["greedy", "other", "greedy", "greedy", "greedy"]
