"""Transactions that stay open."""

from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.doctor.rule import Severity
from esp.doctor.rules import RULES
from esp.doctor.snapshot import HangingTransaction, OverdueTransaction
from tests.unit.doctor.snapshots import hits, name_of, snapshot
from tests.unit.placement.clusters import partition

T = [partition(f"t-{number}", (1, 2)) for number in range(5)]


def overdue(transactional_id, *partitions):
    names = frozenset(map(name_of, partitions))
    known = KnownTransaction(transactional_id, 2, 7, 0, "PrepareCommit", 60_000, 0, names)
    return OverdueTransaction(known, 90_500)


def test_hanging_transaction_comes_with_the_command_that_ends_it():
    found = snapshot(2, T, hanging=(HangingTransaction(OpenTransaction(name_of("t-1"), 7, 3, -1, 50, 0), 1_200_000),))
    [hit] = hits("hanging-transaction", found)
    assert str(hit.place) == "t-1"
    assert hit.detail == "open from offset 50 on, by producer 7 with epoch 3, whose last record is 1200 s old"
    assert hit.remedy == "`esp transactions abort --topic t --partition 1 --start-offset 50 --execute`"
    assert RULES["hanging-transaction"].severity is Severity.ERROR
    assert not hits("hanging-transaction", snapshot(2, T))


def test_overdue_transaction_is_shown_at_its_coordinator_with_the_partitions_that_wait():
    found = snapshot(2, T, overdue=(overdue("a b", "t-1", "t-0"), overdue("c", *(f"t-{n}" for n in range(5)))))
    first, second = hits("transaction-overdue", found)
    assert str(first.place) == "broker 2"
    assert first.detail == "a b is in state PrepareCommit, 90 s past its timeout; waiting: t-0, t-1"
    assert "`esp transactions describe --transactional-id 'a b'`" in first.remedy
    assert second.detail.endswith("waiting: t-0, t-1, t-2 and 2 more")
    assert not hits("transaction-overdue", snapshot(2, T))
