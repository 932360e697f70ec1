"""The tables of mutants in a page of the documentation: what each costs is read from one, and a wall writes its rows anew.

The other has the bugs of transactions and of compaction by their rows, and follows from the first.
"""

import re
from collections.abc import Iterable
from typing import Final

from tests.mutants.table import MUTANTS
from tests.mutants.transaction_rows import KNOWN_BY, NO_ROW, ROW_MUTANTS, RowMutant
from tests.mutants.verdict import Verdict

HEAD: Final = "| mutant | bug | rule | tier | seeds | CPU-s | caught by | run on |"
RULER: Final = "| --- | --- | --- | --- | ---: | ---: | --- | --- |"

BUG_HEAD: Final = "| row | known by | mutant | bug | tier | seeds | caught by |"
BUG_RULER: Final = "| ---: | --- | --- | --- | --- | ---: | --- |"

_BUG_TABLE: Final = re.compile(f"{re.escape(BUG_HEAD)}\n{re.escape(BUG_RULER)}\n((?:\\|.*\n)*)")

_TABLE: Final = re.compile(f"{re.escape(HEAD)}\n{re.escape(RULER)}\n((?:\\|.*\n)*)")


class NoTableError(Exception):
    """A page has no table of mutants."""


def cpu_s_of_rows(page: str) -> dict[tuple[str, str], float]:
    """The CPU-seconds that a mutant took in a tier when its row was written.

    Raises:
        NoTableError: there is no table.
    """
    return {key: float(cells[5]) for key, cells in _rows(page).items()}


def with_rows(page: str, verdicts: Iterable[Verdict]) -> str:
    """The page with the verdicts as rows, in the order of the mutants; other rows stay, unless their mutant is gone.

    Raises:
        NoTableError: there is no table.
    """
    rows = _rows(page) | {verdict.key: _cells(verdict) for verdict in verdicts if verdict.mutant in MUTANTS}
    keys = [(mutant.name, tier) for mutant in MUTANTS.values() for tier in mutant.tiers]
    written = "".join(f"| {' | '.join(rows[key])} |\n" for key in keys if key in rows)
    return _TABLE.sub(lambda _: f"{HEAD}\n{RULER}\n{written}", page)


def with_bug_rows(page: str) -> str:
    """The page with the bugs of transactions and compaction as its table of mutants has them; one without a row there is left out."""
    rows = _rows(page)
    written = "".join(
        f"| {' | '.join(_bug_cells(each, cells))} |\n"
        for each in ROW_MUTANTS
        for cells in (rows.get((each.name, MUTANTS[each.name].tiers[0])),)
        if cells is not None
    )
    return _BUG_TABLE.sub(lambda _: f"{BUG_HEAD}\n{BUG_RULER}\n{written}", page)


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


def _rows(page: str) -> dict[tuple[str, str], list[str]]:
    table = _TABLE.search(page)
    if table is None:
        raise NoTableError
    rows = [line.strip("| ").split(" | ") for line in table[1].splitlines()]
    return {(cells[0], cells[3]): cells for cells in rows}
