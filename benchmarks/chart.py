"""Draws a run: ESP's costs as shares of Kafka's, beside the aims."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from benchmarks.results import ESP, KAFKA, Metric, Summary

WIDTH_IN: Final = 9.0
ROW_HEIGHT_IN: Final = 0.62
FRAME_HEIGHT_IN: Final = 1.5
DPI: Final = 110
LABEL_X: Final = 1.01
"""Share of the axes' width."""

_MET: Final = "#2a9d6f"
_MISSED: Final = "#d1603d"
_NO_AIM: Final = "#8a94a6"


def draw(summaries: Sequence[Summary], path: Path) -> bool:
    """Write a PNG; returns whether there was something to draw: costs with a ratio."""
    rows = [summary for summary in summaries if summary.ratio is not None and not summary.metric.unit.endswith("/s")]
    if not rows:
        return False
    figure = Figure(figsize=(WIDTH_IN, FRAME_HEIGHT_IN + ROW_HEIGHT_IN * len(rows)), dpi=DPI, layout="constrained")
    axes = figure.subplots()
    positions = range(len(rows))
    colours = [_NO_AIM if row.is_met is None else _MET if row.is_met else _MISSED for row in rows]
    axes.barh(positions, [row.ratio or 0.0 for row in rows], color=colours, height=0.6)
    for position, row in zip(positions, rows, strict=True):
        # beside the axes: neither bars nor marks run through it
        axes.text(LABEL_X, position, _label(row), transform=axes.get_yaxis_transform(), va="center", fontsize=8)
        aim = _aim_as_ratio(row)
        if aim is not None:
            axes.plot([aim, aim], [position - 0.4, position + 0.4], color="black", linewidth=2)
    axes.axvline(1.0, color="#44546a", linestyle="--", linewidth=1)
    axes.set_yticks(positions, [row.metric.title for row in rows], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.05 * max(1.0, *(row.ratio or 0.0 for row in rows)))
    axes.set_xlabel("ESP's cost as a share of Kafka 4.3.1's (dashed: Kafka; black mark: the aim)")
    axes.set_title("What the broker costs: less is better")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    return True


def _aim_as_ratio(summary: Summary) -> float | None:
    metric = summary.metric
    if metric.value_aim is not None:
        return metric.value_aim / summary.spreads[KAFKA].median
    return metric.ratio_aim


def _label(summary: Summary) -> str:
    metric: Metric = summary.metric
    ours, theirs = (f"{summary.spreads[name].median:,.{metric.digits}f}" for name in (ESP, KAFKA))
    return f"{summary.ratio:.2f}  ({ours} / {theirs} {metric.unit})"
