"""The excuses of checks have names, and the documentation a row with the reason of each."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

import esp.simulation
from esp.simulation.excuses import FIGURES, Excuse, lines_of, note, tallied
from esp.simulation.fleet import Summary, run_tier
from esp.simulation.outcome import Outcome

PACKAGE = Path(esp.simulation.__file__).parent
PAGE = Path(__file__).parents[3] / "docs" / "SIMULATION.md"


def rows():
    """The cells of each row of the table."""
    section = PAGE.read_text(encoding="utf-8").split("### What a check excuses\n")[1].split("\n#")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_each_row_names_its_excuse_and_each_excuse_has_a_row():
    assert {cells[0] for cells in rows()} == {f"`{name}`" for name in (*Excuse, *FIGURES)}


@pytest.mark.parametrize("cells", rows(), ids=lambda cells: f"{cells[0]} {cells[1][:30]}")
def test_each_row_says_of_what_and_why(cells):
    assert len(cells) == 3
    assert all(len(cell) > 5 for cell in cells[1:])


def test_each_excuse_is_noted_somewhere():
    code = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    noted = set(re.findall(r"note\(Excuse\.([A-Z_]+)\)", code))
    assert noted == {excuse.name for excuse in Excuse}


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_one_of_the_outcome_and_is_summed_up(name):
    assert name in {each.name for each in fields(Outcome)} & {each.name for each in fields(Summary)}


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_is_printed(name):
    line = list(Summary().lines())
    summary = Summary()
    setattr(summary, name, 77_777)
    assert any("77,777" in changed and changed != before for changed, before in zip(summary.lines(), line, strict=True))


def test_what_is_noted_within_a_run_is_counted_for_that_run():
    note(Excuse.LATE_ELECTIONS)  # outside of any
    with tallied() as first:
        note(Excuse.LATE_ELECTIONS)
        note(Excuse.LATE_ELECTIONS)
    with tallied() as second:
        note(Excuse.ROTTEN_TAILS)
    assert first == {"late_elections": 2}
    assert second == {"rotten_tails": 1}


def test_summary_lists_those_that_came_up():
    summary = Summary()
    outcome = Outcome(1, None, None, 1.0, 1, 1, 1, 1, "", excuses={"late_elections": 2, "rotten_tails": 1})
    summary.add(outcome)
    summary.add(outcome)
    noted = [line.split() for line in summary.lines() if "late_elections" in line or "rotten_tails" in line]
    assert noted == [["late_elections", "4"], ["rotten_tails", "2"]]
    assert next(lines_of(summary.excuses)).split()[-1] == "6"


def test_a_fast_tier_sums_them_up():
    summary = run_tier("log", range(1, 30), processes=1)
    assert summary.excuses.keys() <= set(Excuse)
    assert summary.excuses
