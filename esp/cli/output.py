"""Where the tools write: results to stdout, everything else to stderr."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

console = Console(highlight=False)
"""For what is nicer on a terminal."""

errors = Console(stderr=True, highlight=False)
"""For progress and mistakes."""


def print_line(text: str) -> None:
    """Write a line to stdout as it is."""
    sys.stdout.write(text + "\n")


def print_json(value: Any) -> None:
    """Write a value to stdout as one line of JSON; named tuples in it become lists: make mappings of them."""
    print_line(msgspec.json.encode(value).decode())


def print_columns(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> None:
    """Write rows below their headings: as a table on a terminal, else in plain columns as Kafka's tools do.

    Args:
        columns: heading and least width of each.
        rows: their cells.
    """
    if console.is_terminal:
        table = Table(*(heading for heading, _ in columns), box=None, padding=(0, 3, 0, 0))
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
        return
    headings = [heading for heading, _ in columns]
    widths = [max(least, *(len(row[number]) for row in (headings, *rows))) for number, (_, least) in enumerate(columns)]
    for row in (headings, *rows):
        print_line(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_error(problem: str, remedy: str) -> None:
    """Say what is wrong and what to do, in plain lines that a narrow terminal does not break."""
    errors.print(f"esp: {problem}", style="red", markup=False, soft_wrap=True)
    errors.print(f"  {remedy}", markup=False, soft_wrap=True)


def print_warning(text: str) -> None:
    """Say what the caller may not expect; the work goes on."""
    errors.print(f"esp: {text}", style="yellow", markup=False, soft_wrap=True)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show on a terminal that something goes on that may take long."""
    if not errors.is_terminal:
        yield
        return
    with errors.status(text):
        yield
