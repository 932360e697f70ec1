"""The table that a run ends with, and its exit status."""

from collections.abc import Sequence
from typing import Final

from tests.ecosystem.stage import Outcome

_HEAD: Final = ("program", "kills", "records", "result", "seconds")


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as a table, and all violations below it."""
    rows = [_HEAD, *(_row(outcome) for outcome in outcomes)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if column in (0, 3) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    for outcome in outcomes:
        lines += [f"{outcome.program}: {violation}" for violation in outcome.violations]
    return "\n".join(lines)


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """Return 0 if there are outcomes and none has a violation."""
    return 0 if outcomes and not any(outcome.violations for outcome in outcomes) else 1


def _row(outcome: Outcome) -> tuple[str, ...]:
    count = len(outcome.violations)
    result = "ok" if not count else "1 violation" if count == 1 else f"{count} violations"
    return (outcome.program, str(outcome.kills), str(outcome.records), result, f"{outcome.seconds:.0f}")
