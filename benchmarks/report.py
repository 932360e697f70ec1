"""Shows the figures: a table on the terminal, and the files of a run."""

import json
import os
import platform
import ssl
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from benchmarks.results import ESP, KAFKA, Metric, Results, Spread, Summary

NAMES: Final = {ESP: "ESP", KAFKA: "Kafka 4.3.1"}
FILE_STEM: Final = "latest"

_VERDICTS: Final = {True: "met", False: "missed", None: ""}
_VERDICT_STYLES: Final = {True: "green", False: "red", None: ""}
_HEADINGS: Final = ("", "ESP", "Kafka 4.3.1", "ratio", "aim", "")


def describe_machine() -> dict[str, str]:
    """The machine and the software on which the figures depend beside the brokers."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": f"{os.cpu_count()} x {_processor_name()}",
        "memory": f"{memory_bytes / 1e9:.0f} GB",
        "system": platform.platform(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "java": java.partition("\n")[0],
    }


def _processor_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def terminal_table(summaries: Sequence[Summary]) -> Table:
    """The table for the terminal."""
    table = Table(title="Median over the rounds (lowest to highest)")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if not heading else "right")
    for summary in summaries:
        table.add_row(*_row(summary), style=_VERDICT_STYLES[summary.is_met])
    return table


def markdown(
    summaries: Sequence[Summary], machine: Mapping[str, str], notes: Sequence[str], stem: str = FILE_STEM
) -> str:
    """The page of a run."""
    lines = ["# The latest benchmark", "", *(f"- {name}: {value}" for name, value in machine.items()), ""]
    lines += ["Median over the rounds (lowest to highest); the ratio is the median over the rounds' pairs.", ""]
    lines += markdown_table(summaries)
    lines += ["", f"![Chart]({stem}.png)", "", *(f"- {note.replace(chr(10), ' ')}" for note in notes), ""]
    return "\n".join(lines)


def markdown_table(summaries: Sequence[Summary]) -> list[str]:
    """The lines of the table."""
    lines = [f"| {' | '.join(_HEADINGS)} |", "| --- | ---: | ---: | ---: | ---: | --- |"]
    return [*lines, *(f"| {' | '.join(_row(summary))} |" for summary in summaries)]


def _row(summary: Summary) -> tuple[str, ...]:
    metric = summary.metric
    if metric.ratio_aim is not None:
        aim = f"{metric.ratio_aim:g} of Kafka's"
    elif metric.value_aim is not None:
        aim = f"{metric.value_aim:g} {metric.unit}"
    else:
        aim = ""
    return (
        metric.title,
        _shown(metric, summary.spreads.get(ESP)),
        _shown(metric, summary.spreads.get(KAFKA)),
        "" if summary.ratio is None else f"{summary.ratio:.2f}",
        aim,
        _VERDICTS[summary.is_met],
    )


def _shown(metric: Metric, spread: Spread | None) -> str:
    if spread is None:
        return ""
    median, low, high = (f"{value:,.{metric.digits}f}" for value in spread)
    return f"{median} {metric.unit} ({low}\N{EN DASH}{high})"


def write_files(
    results: Results,
    directory: Path,
    machine: Mapping[str, str],
    extent: Mapping[str, Any],
    notes: Sequence[str],
    stem: str = FILE_STEM,
) -> list[Path]:
    """Write the page and the raw figures of a run over those of the one before; ``stem`` is the files' name."""
    summaries = results.summaries()
    directory.mkdir(parents=True, exist_ok=True)
    page = directory / f"{stem}.md"
    page.write_text(markdown(summaries, machine, notes, stem))
    raw = directory / f"{stem}.json"
    values = {key: {name: _rounded(series) for name, series in by.items()} for key, by in results.values.items()}
    raw.write_text(json.dumps({"machine": machine, "extent": extent, "values": values}, indent=1) + "\n")
    return [page, raw]


def _rounded(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.5g}") for value in values]
