"""Where the tools write: results to stdout, everything else to stderr."""

import sys

from rich.console import Console

console = Console(highlight=False)
"""For what is nicer on a terminal."""

errors = Console(stderr=True, highlight=False)
"""For progress and mistakes."""


def print_line(text: str) -> None:
    """Write a line to stdout as it is."""
    sys.stdout.write(text + "\n")


def print_error(problem: str, remedy: str) -> None:
    """Say what is wrong and what to do, in plain lines that a narrow terminal does not break."""
    errors.print(f"esp: {problem}", style="red", markup=False, soft_wrap=True)
    errors.print(f"  {remedy}", markup=False, soft_wrap=True)
