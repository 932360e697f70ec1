"""Reports that are measured row by row: each row has a directory of its own, and is written when it is measured.

A command declares its :class:`Report` beside its rows, and takes the options of :mod:`benchmarks.command`; :meth:`Report.run` makes a
:class:`RowByRow` of both, which measures.
"""

import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import typer
from rich.console import Console

from benchmarks import command
from benchmarks.report import describe_machine
from benchmarks.results import Metric, Results
from benchmarks.stage import Extent, Stage
from benchmarks.written import Rows


def choose_rows(rows: Sequence[str] | None, known: Collection[str]) -> list[str]:
    """Return the rows that are to be measured: those that are named, or all.

    Raises:
        typer.BadParameter: there is no row of a name.
    """
    chosen = list(rows or known)
    unknown = [row for row in chosen if row not in known]
    if unknown:
        raise typer.BadParameter(f"there is no row {unknown[0]!r}: {', '.join(known)}")
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class RowByRow:
    """A run that measures rows of a report.

    Attributes:
        console: gets progress and figures.
        written: the files of the report; None for a short run, which proves that all works, and no more.
        metrics: all figures that there may be.
        extent: the extent of each row without one of its own.
        notes: how all rows are measured.
        data_dir: the place of the rows' directories; None: the system's for temporary files.
        extents: the extents of rows that have one of their own.
    """

    console: Console
    written: Rows | None
    metrics: Sequence[Metric]
    extent: Extent
    notes: Sequence[str]
    data_dir: Path | None = None
    extents: Mapping[str, Extent] = field(default_factory=dict)

    def measure(self, rows: Sequence[str], measure: Callable[[str, Stage], None]) -> None:
        """Measure rows one after the other.

        Args:
            rows: their names.
            measure: takes a row's name and its stage, without brokers.

        Raises:
            NodeError: a broker did not start or stop.
            UnexpectedAnswerError: a broker refused what it was asked for.
        """
        for row in rows:
            self.console.print(f"--- {row}")
            extent, begun_s = self.extents.get(row, self.extent), time.monotonic()
            with tempfile.TemporaryDirectory(prefix="esp-benchmark-", dir=self.data_dir) as directory:
                stage = Stage({}, Path(directory), extent, self.console.print, Results(self.metrics))
                measure(row, stage)
            command.show(self.console, stage.results)
            self.console.print(f"{row} took {time.monotonic() - begun_s:.0f} s")
            if self.written is not None:
                about = {**describe_machine(), **asdict(extent)}
                for path in self.written.put(row, about, stage.results, self.notes):
                    self.console.print(f"wrote {path}")
        if self.written is None:
            self.console.print(
                "A short run proves that all works, no more: a JVM is not warm in it. Nothing was written."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report: its files, its rows, and how they are measured.

    Attributes:
        stem: the name of its files, without suffix.
        title: the title of its page.
        rows: the names of all rows, in the order of the page.
        metrics: all figures that there may be, in the order of the page.
        notes: how all rows are measured.
        quick: the extent of a short run.
        plan: the extents of rows in a planned run, each of its own.
    """

    stem: str
    title: str
    rows: Collection[str]
    metrics: Sequence[Metric]
    notes: Sequence[str]
    quick: Extent
    plan: Mapping[str, Extent] = field(default_factory=dict)

    def run(
        self, extent: Extent, out: Path, *, quick: bool = False, planned: bool = False, data_dir: Path | None = None
    ) -> RowByRow:
        """Begin a run by the options of a command.

        Args:
            extent: the extent of each row.
            out: the directory of the report's files.
            quick: measure at the extent of a short run, and write nothing.
            planned: measure each row at its extent of the plan.
            data_dir: the place of the rows' directories; None: the system's for temporary files.

        Raises:
            typer.BadParameter: the run is to be both quick and planned.
        """
        if quick and planned:
            raise typer.BadParameter("a quick run has an extent of its own", param_hint="--planned")
        written = Rows(out, list(self.rows), stem=self.stem, title=self.title, metrics=self.metrics)
        return RowByRow(
            console=command.new_console(),
            written=None if quick else written,
            metrics=self.metrics,
            extent=self.quick if quick else extent,
            notes=self.notes,
            data_dir=data_dir,
            extents=self.plan if planned else {},
        )
