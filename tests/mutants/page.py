"""The tables of mutants in a page of the documentation: what each costs is read from one, and a wall writes its rows anew.

A second one has the mutants that tests catch instead of runs, a third those without an effect: each mutant stands in one of the three. A
fourth has the bugs of transactions and of compaction by their rows, and follows from the first.
"""

import re
from collections.abc import Iterable
from typing import Final

from tests.mutants.mutant import Mutant
from tests.mutants.table import MUTANTS
from tests.mutants.transaction_rows import KNOWN_BY, NO_ROW, ROW_MUTANTS, RowMutant
from tests.mutants.verdict import Verdict

HEAD: Final = "| mutant | bug | rule | tier | seeds | CPU-s | caught by | run on |"
RULER: Final = "| --- | --- | --- | --- | ---: | ---: | --- | --- |"

TESTED_HEAD: Final = "| mutant | bug | rule | caught by, in `tests` |"
TESTED_RULER: Final = "| --- | --- | --- | --- |"

UNSEEN_HEAD: Final = "| mutant | bug | rule | it has no effect, because |"
UNSEEN_RULER: Final = "| --- | --- | --- | --- |"

BUG_HEAD: Final = "| row | known by | mutant | bug | tier | seeds | caught by |"
BUG_RULER: Final = "| ---: | --- | --- | --- | --- | ---: | --- |"


class NoTableError(Exception):
    """A page has no table with this head."""


def written(page: str, verdicts: Iterable[Verdict]) -> str:
    """The page with the verdicts, and with all its tables as the mutants are.

    Raises:
        NoTableError: one of them is not there.
    """
    return with_bug_rows(with_unseen_rows(with_tested_rows(with_rows(page, verdicts))))


def cpu_s_of_rows(page: str) -> dict[tuple[str, str], float]:
    """The CPU-seconds that a mutant took in a tier when its row was written.

    Raises:
        NoTableError: there is no table.
    """
    return {key: float(cells[5]) for key, cells in _rows(page).items()}


def with_rows(page: str, verdicts: Iterable[Verdict]) -> str:
    """The page with the verdicts as rows, in the order of the mutants; other rows stay, unless their mutant is gone, or no run judges it.

    Raises:
        NoTableError: there is no table.
    """
    rows = _rows(page) | {verdict.key: _cells(verdict) for verdict in verdicts if verdict.mutant in MUTANTS}
    return _with_table(page, HEAD, RULER, [rows[key] for key in judged_keys() if key in rows])


def judged_keys() -> list[tuple[str, str]]:
    """The mutants that runs judge, each with its tiers: those that have rows in the table of verdicts."""
    return [
        (mutant.name, tier)
        for mutant in MUTANTS.values()
        if not mutant.is_gap and not mutant.equivalent
        for tier in mutant.tiers
    ]


def with_tested_rows(page: str) -> str:
    """The page with the gaps, and the test that catches each, as their mutants name it.

    Raises:
        NoTableError: there is no table of them.
    """
    rows = [[mutant.name, mutant.bug, mutant.rule, _claim(mutant)] for mutant in MUTANTS.values() if mutant.is_gap]
    return _with_table(page, TESTED_HEAD, TESTED_RULER, rows)


def with_unseen_rows(page: str) -> str:
    """The page with the mutants that are equivalent to the product, and why.

    Raises:
        NoTableError: there is no table of them.
    """
    rows = [[each.name, each.bug, each.rule, each.equivalent] for each in MUTANTS.values() if each.equivalent]
    return _with_table(page, UNSEEN_HEAD, UNSEEN_RULER, rows)


def with_bug_rows(page: str) -> str:
    """The page with the bugs of transactions and compaction as its table of mutants has them; one without a row there is left out.

    Raises:
        NoTableError: there is no table.
    """
    rows = _rows(page)
    found = [
        _bug_cells(each, cells)
        for each in ROW_MUTANTS
        for cells in (rows.get((each.name, MUTANTS[each.name].tiers[0])),)
        if cells is not None
    ]
    return _with_table(page, BUG_HEAD, BUG_RULER, found)


def _bug_cells(each: RowMutant, cells: list[str]) -> list[str]:
    mutant, bug, _, tier, seeds, _, caught_by, _ = cells
    invariant = caught_by.split(" (")[0]
    reason = each.reason if not each.other or each.other == invariant else ""
    row, known_by = ("-", "") if each.row == NO_ROW else (str(each.row), ", ".join(KNOWN_BY[each.row]))
    return [row, known_by, mutant, bug, tier, seeds, f"{invariant}: {reason}" if reason else invariant]


def _cells(verdict: Verdict) -> list[str]:
    mutant = MUTANTS[verdict.mutant]
    figures = [verdict.which_seeds, f"{verdict.cpu_s:.1f}", verdict.caught_by, verdict.run_on]
    return [mutant.name, mutant.bug, mutant.rule, verdict.tier, *figures]


def _claim(mutant: Mutant) -> str:
    """The test of a gap, as a file and what it claims; else the reason why none can catch it."""
    path, is_test, name = mutant.covered_by.partition("::")
    claim = name.removeprefix("test_").replace("_", " ")
    return f"`{path.removeprefix('tests/')}`: {claim}" if is_test else mutant.covered_by


def _rows(page: str) -> dict[tuple[str, str], list[str]]:
    rows = [line.strip("| ").split(" | ") for line in _table(page, HEAD, RULER)[1].splitlines()]
    return {(cells[0], cells[3]): cells for cells in rows}


def _with_table(page: str, head: str, ruler: str, rows: Iterable[list[str]]) -> str:
    """The page with these rows in the place of those below a head."""
    start, end = _table(page, head, ruler).span(1)
    return page[:start] + "".join(f"| {' | '.join(cells)} |\n" for cells in rows) + page[end:]


def _table(page: str, head: str, ruler: str) -> re.Match[str]:
    """The table below a head, its rows as the first group."""
    table = re.search(f"^{re.escape(head)}\n{re.escape(ruler)}\n((?:\\|.*\n)*)", page, re.MULTILINE)
    if table is None:
        raise NoTableError(head)
    return table
