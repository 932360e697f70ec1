"""Cores of transactions by seed."""

import pytest

from esp.simulation.partition_tier.transacting import TransactingRun


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_no_seed_violates_an_invariant_and_transactions_end(first: int) -> None:
    for seed in range(first, first + 10):
        run = TransactingRun(seed)
        run.run()
        assert sum(sent.is_committed for sent in run._all_sent) > 3
        assert any(False in sent.decisions for sent in run._all_sent)


def test_a_seed_gives_the_same_run_twice() -> None:
    runs = [TransactingRun(5) for _ in range(2)]
    for run in runs:
        run.run()
    moves = [[str(state) for state in run._ids.values()] for run in runs]
    assert moves[0] == moves[1]
