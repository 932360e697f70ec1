"""Compacted logs by seed."""

from random import Random

import pytest

from esp.simulation.checkers.violation import ViolationError
from esp.simulation.log_tier.compacted import CompactedLogRun
from esp.storage.compaction import cleaning


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_no_seed_violates_an_invariant(first):
    for seed in range(first, first + 10):
        CompactedLogRun(seed).run()


def test_a_seed_gives_the_same_run_twice():
    runs = [CompactedLogRun(5) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0]._batches == runs[1]._batches
    assert runs[0]._batches


def interrupt_swaps(count):
    for number in range(count):
        run = CompactedLogRun(number)
        run._interrupt_swap(Random(number))
        run._check()


def test_a_round_that_begins_beside_half_a_swap_is_seen(monkeypatch):
    interrupt_swaps(40)

    def prepare_nothing(_log):
        yield from ()

    monkeypatch.setattr(cleaning, "preparing", prepare_nothing)
    with pytest.raises(
        ViolationError, match="found from"
    ):  # no log start is known: the log seems to begin behind what is gone
        interrupt_swaps(40)
