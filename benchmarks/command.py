"""The common parts of the commands that compare ESP with Kafka: their options, their terminal, and the results of a run."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from benchmarks.chart import draw
from benchmarks.report import terminal_table, write_files
from benchmarks.results import ESP, KAFKA, Results

RESULTS_DIRECTORY: Final = Path(__file__).with_name("results")

_WIDTH_OF_FILES: Final = 130
"""Columns where the output is no terminal: the table's rows fit."""


def _made(directory: Path | None) -> Path | None:
    """Make a directory that was asked for.

    Raises:
        typer.BadParameter: it cannot be made.
    """
    if directory is not None:
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"{directory} cannot be made: {error.strerror}") from error
    return directory


DataDir: TypeAlias = Annotated[
    Path | None,
    typer.Option(callback=_made, help="Where the brokers' data goes, made if need be; needs up to 8 GB free."),
]

Rounds: TypeAlias = Annotated[int, typer.Option(min=1, help="Measured rounds of load.")]
WarmUp: TypeAlias = Annotated[int, typer.Option(min=0, help="Rounds before them that do not count.")]
Scale: TypeAlias = Annotated[float, typer.Option(min=0.001, help="Size of everything; 1 is that of the report.")]
Megabytes: TypeAlias = Annotated[int, typer.Option(min=1, help="Produced per round.")]
Only: TypeAlias = Annotated[str, typer.Option(help="Measure one alone: esp or kafka.")]
Quick: TypeAlias = Annotated[
    bool,
    typer.Option("--quick", help="A short run to see that all works; it writes no results, Kafka is not warm in it."),
]
Out: TypeAlias = Annotated[Path, typer.Option(help="Where the results go.")]


def rows_argument(names: Iterable[str]) -> Any:
    """The argument of a command that measures some rows of a report: ``Annotated[list[str] | None, rows_argument(ROWS)]``."""
    return typer.Argument(help=f"Rows: {', '.join(names)}; all without one.")


def new_console() -> Console:
    """A terminal, or a file that a table fits into."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDTH_OF_FILES)


def chosen(only: str) -> list[str]:
    """The names of the products to measure.

    Raises:
        typer.BadParameter: no product has that name.
    """
    if only not in ("", ESP, KAFKA):
        raise typer.BadParameter(f"{only!r} is neither {ESP} nor {KAFKA}", param_hint="--only")
    return [only] if only else [ESP, KAFKA]


def show(console: Console, results: Results) -> None:
    """Print the figures."""
    console.print(terminal_table(results.summaries()))


def leave(
    console: Console,
    results: Results,
    directory: Path,
    machine: Mapping[str, str],
    extent: Mapping[str, Any],
    notes: Sequence[str],
    stem: str,
) -> None:
    """Write page, figures and chart of a run over those of the one before."""
    written = write_files(results, directory, machine, extent, notes, stem)
    chart = directory / f"{stem}.png"
    if draw(results.summaries(), chart):
        written.append(chart)
    for path in written:
        console.print(f"wrote {path}")
