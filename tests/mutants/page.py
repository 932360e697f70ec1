"""The table of mutants in a page of the documentation: what each costs is read from it, and a wall writes its rows anew."""

import re
from collections.abc import Iterable
from typing import Final

from tests.mutants.table import MUTANTS
from tests.mutants.verdict import Verdict

HEAD: Final = "| mutant | bug | rule | tier | seeds | CPU-s | caught by | run on |"
RULER: Final = "| --- | --- | --- | --- | ---: | ---: | --- | --- |"

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
