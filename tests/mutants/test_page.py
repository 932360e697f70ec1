"""A page's table of mutants takes the rows of a wall, and tells what each cost."""

import pytest

from esp.simulation.tiers import LOG, NODES
from tests.mutants import page
from tests.mutants.mutant import FLIPPED_BITS, Mutant
from tests.mutants.page import (
    BUG_HEAD,
    BUG_RULER,
    HEAD,
    RULER,
    TESTED_HEAD,
    TESTED_RULER,
    UNSEEN_HEAD,
    UNSEEN_RULER,
    NoTableError,
    cpu_s_of_rows,
    judged_keys,
    with_bug_rows,
    with_rows,
    with_tested_rows,
    with_unseen_rows,
    written,
)
from tests.mutants.table import MUTANTS
from tests.mutants.transaction_rows import NO_ROW, RowMutant
from tests.mutants.verdict import Verdict
from tests.mutants.wall import PAGE

BOTH = Mutant("both", "KAFKA-1", "A-1", "a_module", "a", "b", tiers=(LOG, NODES), kind=FLIPPED_BITS)
OLD = Mutant("old", "KAFKA-2", "A-2", "a_module", "a", "b", tiers=(LOG,))
TESTED = OLD._replace(name="tested", is_gap=True, covered_by="tests/unit/test_it.py::test_that_it_is_so")
UNTESTABLE = OLD._replace(name="untestable", is_gap=True, covered_by="The clock would have to stand still.")
UNSEEN = OLD._replace(name="unseen", equivalent="it is the same")

WRITTEN = f"""Before it.

{HEAD}
{RULER}
| old | KAFKA-2 | A-2 | log | 7 | 0.5 | INV-A | 2026-01-02 |
| gone | KAFKA-3 | A-3 | log | 8 | 0.6 | INV-A | 2026-01-02 |

| another | table |
"""


@pytest.fixture(autouse=True)
def mutants(monkeypatch):
    monkeypatch.setattr(page, "MUTANTS", {"both": BOTH, "old": OLD})


def test_verdicts_become_rows_in_the_order_of_the_mutants():
    alive = Verdict("both", LOG, None, None, 9, ("3: INV-B: why",), 1.25, 1, "", "2026-11-25")
    caught = Verdict("both", NODES, "INV-A", "INV-A: why", 2, (), 3.0, 5, FLIPPED_BITS, "2026-11-25")
    assert with_rows(WRITTEN, [caught, alive]).splitlines() == [
        "Before it.",
        "",
        HEAD,
        RULER,
        "| both | KAFKA-1 | A-1 | log | 9 | 1.2 | NOTHING: IT LIVES (1 void) | 2026-11-25 |",
        "| both | KAFKA-1 | A-1 | nodes | 2 of flipped bits (from 5) | 3.0 | INV-A | 2026-11-25 |",
        "| old | KAFKA-2 | A-2 | log | 7 | 0.5 | INV-A | 2026-01-02 |",
        "",
        "| another | table |",
    ]


def test_a_new_verdict_replaces_the_old_row():
    again = Verdict("old", LOG, "INV-C", "INV-C: why", 1, (), 0.1, 1, "", "2026-11-25")
    assert "| old | KAFKA-2 | A-2 | log | 1 | 0.1 | INV-C | 2026-11-25 |\n\n" in with_rows(WRITTEN, [again])


def test_rows_tell_what_a_mutant_costs():
    assert cpu_s_of_rows(WRITTEN) == {("old", LOG): 0.5, ("gone", LOG): 0.6}


def test_the_table_of_bugs_follows_from_that_of_mutants(monkeypatch):
    rows = (
        RowMutant(2, "old", "INV-A", "so it must be"),
        RowMutant(18, "old", "INV-B", "a reason for another"),
        RowMutant(NO_ROW, "old"),
        RowMutant(3, "both"),
    )
    monkeypatch.setattr(page, "ROW_MUTANTS", rows)
    assert with_bug_rows(f"{WRITTEN}\n{BUG_HEAD}\n{BUG_RULER}\n| 1 | stale |\n").splitlines()[-4:] == [
        BUG_RULER,
        "| 2 | INV-TXN-VERIFIED | old | KAFKA-2 | log | 7 | INV-A: so it must be |",
        "| 18 | INV-ABORTED-LIST | old | KAFKA-2 | log | 7 | INV-A |",
        "| - |  | old | KAFKA-2 | log | 7 | INV-A |",
    ]


def test_what_no_run_judges_has_a_row_elsewhere(monkeypatch):
    mutants = {mutant.name: mutant for mutant in (BOTH, TESTED, UNTESTABLE, UNSEEN)}
    monkeypatch.setattr(page, "MUTANTS", mutants)
    former = Verdict("tested", LOG, "INV-A", "INV-A: why", 1, (), 0.1, 1, "", "2026-11-25")
    assert with_rows(WRITTEN, [former]).splitlines() == ["Before it.", "", HEAD, RULER, "", "| another | table |"]
    assert with_tested_rows(f"{TESTED_HEAD}\n{TESTED_RULER}\n| stale |\n\nAfter it.").splitlines()[2:] == [
        "| tested | KAFKA-2 | A-2 | `unit/test_it.py`: that it is so |",
        "| untestable | KAFKA-2 | A-2 | The clock would have to stand still. |",
        "",
        "After it.",
    ]
    assert with_unseen_rows(f"{UNSEEN_HEAD}\n{UNSEEN_RULER}\n").splitlines()[2:] == [
        "| unseen | KAFKA-2 | A-2 | it is the same |"
    ]


@pytest.mark.parametrize("change", [cpu_s_of_rows, with_tested_rows, with_unseen_rows, with_bug_rows])
def test_a_page_without_a_table_is_refused(change):
    with pytest.raises(NoTableError):
        change("| another | table |\n")


def test_each_mutant_stands_in_the_page_once(monkeypatch):
    monkeypatch.setattr(page, "MUTANTS", MUTANTS)
    text = PAGE.read_text(encoding="utf-8")
    assert [key for key in judged_keys() if key not in cpu_s_of_rows(text)] == [], "judge these by make mutants"
    assert written(text, ()) == text, "make mutants ARGS='NAME --write' writes all tables"
