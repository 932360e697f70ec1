"""Runs seeds of all tiers in processes of their own, and prints which functions none of them entered.

Those of whole nodes are chosen (:mod:`esp.simulation.coverage.choosing`), those of the fast tiers follow one another.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, TypedDict

import typer

from esp.simulation.coverage.choosing import choose
from esp.simulation.coverage.functions import ROOMS, find_all_functions, room_of
from esp.simulation.coverage.unreached import SELDOM, UNREACHED
from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM

_SEEDS_PER_PROCESS: Final = 10
"""The number of runs of whole nodes that one process carries out."""

_FACTORS: Final[Mapping[str, int]] = {NODES: 1, PARTITION: 3, QUORUM: 5, LOG: 1}
"""The seeds of a tier for each of whole nodes: those of the partition and of the quorum take a tenth of a second."""

_ROW: Final = "{:<34}{:>8}{:>8}{:>8.1%}"


class Seeds(NamedTuple):
    """The seeds that one process runs."""

    tier: str
    seeds: tuple[int, ...]


class _Result(TypedDict):
    entered: list[str]
    violations: dict[str, str]


def print_coverage(seeds: int, *, first: int = 1, processes: int | None = None) -> bool:
    """Run so many seeds of whole nodes, and as many or more of each fast tier, and print what they left out.

    Args:
        seeds: how many.
        first: the first of those that may be chosen.
        processes: how many at a time; None: one for each core.

    Returns:
        Whether each function was entered or has its reason, no reason is for a function that was entered, and nothing was violated.
    """
    entered: dict[str, None] = {}
    violations: list[str] = []
    with ThreadPoolExecutor(processes or os.cpu_count()) as pool:
        tasks = list(divide(seeds, first))
        for task, result in zip(tasks, pool.map(_run, tasks), strict=True):
            entered.update(dict.fromkeys(result["entered"]))
            violations += [f"{task.tier} {seed}: {text}" for seed, text in result["violations"].items()]
    functions = find_all_functions()
    for line in lines(functions, entered):
        typer.echo(line)
    missing = [name for name in functions if name not in entered and name not in UNREACHED and name not in SELDOM]
    outlived = [name for name in UNREACHED if name in entered]
    _list("entered by no run, and without a reason", missing)
    _list("entered, though the table has a reason why not", outlived)
    _list("violations", violations)
    return not (missing or outlived or violations)


def divide(seeds: int, first: int) -> Iterator[Seeds]:
    """The processes' shares; those of whole nodes first, as they take longest."""
    for tier, factor in _FACTORS.items():
        all_seeds = choose(seeds, first) if tier == NODES else range(first, first + seeds * factor)
        share = _SEEDS_PER_PROCESS * factor
        for start in range(0, len(all_seeds), share):
            yield Seeds(tier, tuple(all_seeds[start : start + share]))


def lines(functions: Iterable[str], entered: Collection[str]) -> Iterator[str]:
    """The table: of each room how many functions were entered, and how many there are."""
    there, reached = Counter[str](), Counter[str]()
    for name in functions:
        there[room_of(name)] += 1
        reached[room_of(name)] += name in entered
    yield f"{'room':<34}{'entered':>8}{'of':>8}"
    for room in ROOMS:
        yield _ROW.format(room, reached[room], there[room], reached[room] / there[room])
    yield _ROW.format("all", reached.total(), there.total(), reached.total() / there.total())


def _list(title: str, entries: Collection[str]) -> None:
    if entries:
        typer.echo(f"\n{title} ({len(entries)}):")
        for entry in entries:
            typer.echo(f"  {entry}")


def _run(task: Seeds) -> _Result:
    command = [sys.executable, "-m", "esp.simulation.coverage", task.tier, *map(str, task.seeds)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode:
        raise RuntimeError(f"the process of {task} failed:\n{done.stderr}")
    result: _Result = json.loads(done.stdout)
    return result
