"""Runs mutants, each in a process of its own, and prints the table: bug, Kafka's number, tier, seeds, CPU-seconds, invariant.

A seed catches a mutant only if the product as it is passes on that seed in that tier: else the seed is void, and the next ones are run.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final, NamedTuple, TypedDict

import typer

from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM
from tests.mutants.mutant import UNMUTATED, Mutant
from tests.mutants.table import MUTANTS

SEEDS: Final[Mapping[str, int]] = {NODES: 100, PARTITION: 3000, QUORUM: 1000, LOG: 1000}
"""The most seeds that a mutant is run for in each tier."""

ROW: Final = "{:<34} {:<26} {:<9} {:>6} {:>8}  {}"


class Verdict(NamedTuple):
    """What became of one mutant in one tier; without an invariant it lives."""

    mutant: Mutant
    tier: str
    invariant: str | None
    violation: str | None
    seeds: int
    """The seeds that were run, with the one that caught it and the void ones."""
    void: int
    """The seeds that do not count, because the product fails on them without the mutant."""
    cpu_s: float
    """CPU-seconds of the mutated runs."""


class _Result(TypedDict):
    invariant: str | None
    violation: str | None
    seeds: int
    last: int
    cpu_s: float


def print_wall(
    names: Sequence[str],
    *,
    first: int | None = None,
    seeds: int | None = None,
    nodes: int | None = None,
    tier: str | None = None,
) -> bool:
    """Run mutants and print what became of them, each as it is known; how far it is goes to a terminal's stderr.

    Args:
        names: which; all but the gaps if none is named.
        first: the first seed; None for the mutant's own.
        seeds: the most seeds for each; None for :data:`SEEDS`.
        nodes: the size of the clusters of whole nodes; None: what the mutant or the seed says.
        tier: only this tier; None for all that the mutants name.

    Returns:
        Whether each was caught in each of its tiers.
    """
    chosen = [MUTANTS[name] for name in names] or [mutant for mutant in MUTANTS.values() if not mutant.is_gap]
    tasks = [
        (mutant, its) for mutant in chosen for its in mutant.tiers if not mutant.equivalent and tier in {None, its}
    ]
    typer.echo(ROW.format("mutant", "bug", "tier", "seeds", "CPU-s", "caught by"))
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [
            pool.submit(run_mutant, mutant, its, first=first or mutant.first, seeds=seeds or SEEDS[its], nodes=nodes)
            for mutant, its in tasks
        ]
        for ended in as_completed(running):
            verdict = ended.result()
            verdicts.append(verdict)
            typer.echo(_row(verdict))
            if sys.stderr.isatty():
                typer.echo(f"{len(verdicts)} of {len(tasks)}\r", err=True, nl=False)
    for mutant in chosen:
        if mutant.equivalent:
            typer.echo(ROW.format(mutant.name, mutant.bug, "-", "-", "-", f"equivalent: {mutant.equivalent}"))
    alive = [verdict for verdict in verdicts if verdict.invariant is None]
    bugs = {verdict.mutant.name for verdict in verdicts} - {verdict.mutant.name for verdict in alive}
    cpu_s = sum(verdict.cpu_s for verdict in verdicts)
    typer.echo(
        f"{len(verdicts) - len(alive)} of {len(verdicts)} caught, {len(bugs)} different bugs, {cpu_s:.0f} CPU-seconds"
    )
    return not alive


def _row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    caught = verdict.invariant or "NOTHING: IT LIVES"
    if verdict.void:
        caught += f" ({verdict.void} void)"
    return ROW.format(mutant.name, mutant.bug, verdict.tier, verdict.seeds, f"{verdict.cpu_s:.1f}", caught)


def run_mutant(mutant: Mutant, tier: str, *, first: int, seeds: int, nodes: int | None = None) -> Verdict:
    """Run a mutant in one tier until a seed catches it that the product as it is passes.

    Raises:
        RuntimeError: a process failed: the mutant's text is gone, or its patch is wrong.
    """
    size = mutant.node_count if nodes is None else nodes
    done = void = 0
    cpu_s = 0.0
    while done < seeds:
        result = _run(mutant.name, tier, first, seeds - done, size)
        done += result["seeds"]
        first = result["last"] + 1
        cpu_s += result["cpu_s"]
        if result["violation"] is None:
            break
        if _run(UNMUTATED, tier, result["last"], 1, size)["violation"] is None:
            return Verdict(mutant, tier, result["invariant"], result["violation"], done, void, cpu_s)
        void += 1
    return Verdict(mutant, tier, None, None, done, void, cpu_s)


def _run(name: str, tier: str, first: int, seeds: int, nodes: int | None) -> _Result:
    command = [sys.executable, "-m", "tests.mutants.process", name, tier, str(first), str(seeds)]
    command += [str(nodes)] if nodes is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process of {name} failed:\n{done.stderr}")
    result: _Result = json.loads(done.stdout)
    return result
