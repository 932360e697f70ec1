"""Compacted logs by seed."""

import pytest

from esp.simulation.log_tier.compacted import CompactedLogRun


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
