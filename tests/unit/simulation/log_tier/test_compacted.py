"""Compacted logs by seed."""

from random import Random

import pytest

from esp.simulation.checkers.violation import ViolationError
from esp.simulation.log_tier.compacted import CompactedLogRun
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage import recovery
from esp.storage.compaction import cleaning
from esp.storage.compaction.fates import ANY_BATCH
from esp.storage.compaction.round import CleaningRound
from esp.storage.unsynced import Unsynced


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
    """Where the start before it could not sync the names of the swap."""
    monkeypatch.setattr(Unsynced, "sync_names_blocking", lambda _unsynced: None)
    interrupt_swaps(40)

    def prepare_nothing(_log):
        yield from ()

    monkeypatch.setattr(cleaning, "preparing", prepare_nothing)
    with pytest.raises(
        ViolationError, match="found from"
    ):  # no log start is known: the log seems to begin behind what is gone
        interrupt_swaps(40)


def cut_last_batches(count):
    for number in range(count):
        run = CompactedLogRun(number)
        run._cut_last_batches(Random(number))
        run._check()


def test_batches_that_are_the_last_ones_again_after_a_cut_must_be_there(monkeypatch):
    cut_last_batches(20)
    monkeypatch.setattr(
        CleaningRound,
        "_find_last",
        lambda cleaning_round, producer_id, _known: min(
            cleaning_round._last_dirty.get(producer_id, ()), default=ANY_BATCH
        ),
    )
    with pytest.raises(ViolationError, match=r"INV-CLEAN-STATE.*after a cut"):
        cut_last_batches(20)


def lose_power_in_swaps(count):
    for number in range(count):
        run = CompactedLogRun(number)
        run._lose_power_in_swap()
        run._check()


def test_power_is_lost_when_a_swap_is_complete_whose_sources_are_not_gone_for_certain(monkeypatch):
    lose_power_in_swaps(20)
    remove_covered, sync = recovery._remove_covered_blocking, SimulatedDisk.sync_directory_blocking
    removals = []

    def note_removal(*swap):
        remove_covered(*swap)
        removals.append(swap)

    def sync_no_removals(disk, path):
        if removals:
            removals.clear()
        else:
            sync(disk, path)

    monkeypatch.setattr(recovery, "_remove_covered_blocking", note_removal)
    monkeypatch.setattr(SimulatedDisk, "sync_directory_blocking", sync_no_removals)
    with pytest.raises(ViolationError, match="INV-ORDER"):
        lose_power_in_swaps(40)
