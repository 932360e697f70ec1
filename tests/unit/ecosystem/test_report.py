"""The table of a run of the ecosystem."""

from tests.ecosystem.report import exit_status, table
from tests.ecosystem.stage import Outcome

GOOD = Outcome("Streams", 6, 4000, seconds=61.4)
BAD = Outcome("Connect", 0, 12, ["line 3 comes again"], 5.0)


def test_table_has_a_row_for_each_program_and_lists_violations() -> None:
    assert table([GOOD, BAD]).splitlines() == [
        "program  kills  records  result       seconds",
        "Streams      6     4000  ok                61",
        "Connect      0       12  1 violation        5",
        "Connect: line 3 comes again",
    ]


def test_violations_and_empty_runs_fail() -> None:
    assert exit_status([GOOD]) == 0
    assert exit_status([GOOD, BAD]) == 1
    assert exit_status([]) == 1
