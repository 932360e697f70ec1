"""Shows how far a plan is: bars on a terminal, plain lines elsewhere, JSON for programs."""

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, Protocol

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from esp.cli.output import console, in_one_line, print_json, print_line
from esp.model.ids import TopicPartition
from esp.rebalance.journal_entries import Wish
from esp.rebalance.report import MoveReport, Report
from esp.rebalance.sizes import format_duration, format_size
from esp.rebalance.stages import Stage

_LINE_EVERY_S: Final = 5.0
_BAR_WIDTH: Final = 24


class Display(Protocol):
    """Shows reports while it is entered."""

    def shown(self) -> AbstractContextManager[object]:
        """Enter it."""

    def watch(self, report: Report) -> None:
        """Show one."""


def make_display(*, json: bool) -> Display:
    """Return the display that suits the output: JSON, a terminal, or plain lines."""
    if json:
        return _JsonDisplay()
    return _TerminalDisplay() if console.is_terminal else _PlainDisplay()


class _PlainDisplay:
    """A line for every move that comes to another stage or has another reason, and one for all now and then."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, tuple[Stage, str]] = {}
        self._next_s = 0.0
        self._trouble = ""

    def shown(self) -> AbstractContextManager[object]:
        """See :class:`Display`."""
        return nullcontext()

    def watch(self, report: Report) -> None:
        """See :class:`Display`."""
        if report.trouble and report.trouble != self._trouble:
            print_line(report.trouble)
        self._trouble = report.trouble
        for move in report.moves:
            told = (move.stage, _kind_of(move.reason))
            if self._told.get(move.partition, (Stage.PLANNED, "")) != told:
                self._told[move.partition] = told
                print_line(move_line(move))
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _LINE_EVERY_S
            print_line(summary(report))
        sys.stdout.flush()


class _JsonDisplay:
    """A document a line: every move that changes, and all now and then."""

    def __init__(self) -> None:
        self._told: dict[TopicPartition, tuple[Stage, str]] = {}
        self._next_s = 0.0

    def shown(self) -> AbstractContextManager[object]:
        """See :class:`Display`."""
        return nullcontext()

    def watch(self, report: Report) -> None:
        """See :class:`Display`."""
        for move in report.moves:
            told = (move.stage, _kind_of(move.reason))
            if self._told.get(move.partition) != told:
                self._told[move.partition] = told
                print_json({"event": "move", **move_as_json(move)})
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + 1.0
            print_json({"event": "progress", **report_as_json(report)})
        sys.stdout.flush()


class _TerminalDisplay:
    """A line and a bar for all, a bar for each move that goes on, and what has come to a bad end."""

    def __init__(self) -> None:
        self._line = Text()
        name, told = Column(no_wrap=True), Column(no_wrap=True, overflow="ellipsis")
        self._bars = Progress(
            TextColumn("{task.description}", table_column=name),
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.fields[told]}", table_column=told),
            console=console,
        )
        self._all = self._bars.add_task("all", total=1, told="")
        self._tasks: dict[TopicPartition, TaskID] = {}

    def shown(self) -> AbstractContextManager[object]:
        """See :class:`Display`."""
        return Live(Group(self._line, self._bars), console=console, refresh_per_second=4)

    def watch(self, report: Report) -> None:
        """See :class:`Display`."""
        self._line.plain = in_one_line(report.trouble) or summary(report)
        self._update(self._all, report.copied_bytes, report.total_bytes, _of(report.copied_bytes, report.total_bytes))
        shown = {move.partition: move for move in report.moves if move.stage.is_active or move.stage is Stage.BLOCKED}
        for gone in [partition for partition in self._tasks if partition not in shown]:
            self._bars.remove_task(self._tasks.pop(gone))
        for partition, move in shown.items():
            if partition not in self._tasks:
                self._tasks[partition] = self._bars.add_task(escape(in_one_line(str(partition))), total=1, told="")
            told = move.reason or _of(move.copied_bytes, move.total_bytes)
            self._update(self._tasks[partition], move.copied_bytes, move.total_bytes, told)

    def _update(self, task: TaskID, copied_bytes: int, total_bytes: int, told: str) -> None:
        self._bars.update(task, completed=copied_bytes, total=max(1, total_bytes), told=escape(in_one_line(told)))


def _of(copied_bytes: int, total_bytes: int) -> str:
    return f"{format_size(copied_bytes)} of {format_size(total_bytes)}"


def summary(report: Report) -> str:
    """The progress of the whole plan, in one line."""
    stages = report.stages
    active = stages[Stage.COPYING] + stages[Stage.SUBMITTED]
    parts = [f"{stages[Stage.DONE]}/{len(report.moves)} moves done, {active} in progress"]
    parts.append(_of(report.copied_bytes, report.total_bytes))
    if report.bytes_per_second and report.left_bytes:
        parts.append(f"{format_size(report.bytes_per_second)}/s")
    if report.left_s is not None and report.left_moves and report.wish is not Wish.PAUSE:
        parts.append(f"{format_duration(report.left_s)} left")
    if report.limit_bytes_per_second is not None:
        parts.append(f"limit {format_size(report.limit_bytes_per_second)}/s for each broker")
    if report.produce_p99_ms is not None:
        parts.append(f"produce p99 {report.produce_p99_ms:.0f} ms")
    if report.wish is Wish.PAUSE:
        parts.append("paused")
    return ", ".join(parts)


def move_line(move: MoveReport) -> str:
    """The progress of a move, in one line."""
    copied = f" {_of(move.copied_bytes, move.total_bytes)}" if move.total_bytes else ""
    reason = f": {move.reason}" if move.reason else ""
    return f"{move.partition} {list(move.before)} -> {list(move.after)} {move.stage.value}{copied}{reason}"


def print_report(report: Report, *, json: bool) -> None:
    """Show a report once."""
    if json:
        print_json({**report_as_json(report), "details": [move_as_json(move) for move in report.moves]})
        return
    print_line(summary(report))
    shown = [move for move in report.moves if move.stage.is_active or move.reason]
    for move in shown:
        print_line(f"  {move_line(move)}")


def report_as_json(report: Report) -> dict[str, Any]:
    """A report in values, without its moves."""
    return {
        "wish": report.wish.value,
        "moves": {stage.value: count for stage, count in sorted(report.stages.items(), key=lambda each: each[0].value)},
        "copied_bytes": report.copied_bytes,
        "total_bytes": report.total_bytes,
        "left_bytes": report.left_bytes,
        "bytes_per_second": report.bytes_per_second,
        "left_seconds": report.left_s,
        "limit_bytes_per_second": report.limit_bytes_per_second,
        "produce_p99_ms": report.produce_p99_ms,
        "trouble": report.trouble or None,
    }


def move_as_json(move: MoveReport) -> dict[str, Any]:
    """A move in values."""
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "before": move.before,
        "after": move.after,
        "stage": move.stage.value,
        "reason": move.reason or None,
        "copied_bytes": move.copied_bytes,
        "total_bytes": move.total_bytes,
    }


def _kind_of(reason: str) -> str:
    """A reason without its numbers, which change all the time."""
    return "".join(character for character in reason if not character.isdigit())
