"""Compacted logs of transactions by seed."""

import pytest

from esp.simulation.checkers.violation import ViolationError
from esp.simulation.log_tier.transacted import TransactedLogRun


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_no_seed_violates_an_invariant(first: int) -> None:
    for seed in range(first, first + 5):
        TransactedLogRun(seed).run()


def test_a_seed_gives_the_same_run_twice() -> None:
    runs = [TransactedLogRun(5) for _ in range(2)]
    for run in runs:
        run.run()
    assert runs[0]._kept == runs[1]._kept
    assert runs[0]._kept


def test_an_aborted_transaction_that_no_index_has_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esp.storage.aborted_transactions.AbortedTransactions.find_blocking", lambda *_: [])
    with pytest.raises(ViolationError, match="INV-ABORTED-LIST"):
        TransactedLogRun(3).run()
