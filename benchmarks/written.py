"""The files of the report: each row as it was measured last, with the machine and the extent of that run."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.report import markdown_table
from benchmarks.results import Metric, Results


class Rows:
    """The rows of the report.

    Args:
        directory: of the files, which may be there from other runs.
        order: the names of all rows.
        stem: the files' name.
        title: of the page.
        metrics: all figures that there may be, in the order of the page.
    """

    def __init__(
        self, directory: Path, order: Sequence[str], *, stem: str, title: str, metrics: Sequence[Metric]
    ) -> None:
        self._page = directory / f"{stem}.md"
        self._raw = directory / f"{stem}.json"
        self._order = order
        self._title = title
        self._metrics = metrics

    def put(self, row: str, about: Mapping[str, Any], results: Results, notes: Sequence[str]) -> list[Path]:
        """Write what a run measured of a row over what is there of it, and return the files.

        Args:
            row: its name.
            about: the machine and the extent of the run.
            results: the values.
            notes: how all rows are measured.
        """
        rows = json.loads(self._raw.read_text()) if self._raw.exists() else {}
        values = {
            key: {name: [float(f"{value:.5g}") for value in series] for name, series in by.items()}
            for key, by in results.values.items()
        }
        load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
        # A row that takes long, or needs starts of its own, has fewer rounds than were asked for.
        rounds = max((len(series) for by in values.values() for series in by.values()), default=0)
        rows[row] = {"about": {**about, "rounds": rounds, "load average": load}, "values": values}
        rows = {name: rows[name] for name in self._order if name in rows}
        self._raw.parent.mkdir(parents=True, exist_ok=True)
        self._raw.write_text(json.dumps(rows, indent=1) + "\n")
        self._page.write_text(page_of(rows, notes, self._title, self._metrics))
        return [self._page, self._raw]


def page_of(rows: Mapping[str, Any], notes: Sequence[str], title: str, metrics: Sequence[Metric]) -> str:
    """The page of all rows."""
    lines = [f"# {title}", ""]
    lines += ["Median over the rounds (lowest to highest); the ratio is the median over the rounds' pairs.", ""]
    for row, content in rows.items():
        results = Results(metrics)
        for key, by in content["values"].items():
            for name, series in by.items():
                results.values[key][name] = series
        lines += [f"## {row}", "", *markdown_table(results.summaries()), ""]
        lines += [", ".join(f"{name} {value}" for name, value in content["about"].items()), ""]
    return "\n".join([*lines, *(f"- {note.replace(chr(10), ' ')}" for note in notes), ""])
