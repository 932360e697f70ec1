"""Runs mutants, each in a process of its own, and prints the table: bug, Kafka's number, tier, seeds, CPU-seconds, invariant.

A seed catches a mutant only if the product as it is passes on that seed in that tier: else the seed is void, and the next ones are run. So
they are where the mutant names the invariants that must catch it, and the seed violates another one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Final, TypedDict

import typer

from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM
from tests.mutants.mutant import UNMUTATED, Mutant
from tests.mutants.page import cpu_s_of_rows, written
from tests.mutants.table import MUTANTS
from tests.mutants.verdict import Verdict, Verdicts, today

SEEDS: Final[Mapping[str, int]] = {NODES: 100, PARTITION: 3000, QUORUM: 1000, LOG: 1000}
"""The most seeds that a mutant is run for in each tier."""

PAGE: Final = Path(__file__).parents[2] / "docs" / "SIMULATION.md"
"""The page with the table of mutants."""

UNKNOWN_CPU_S: Final = 60.0
"""What a mutant is taken to cost that the table does not know."""

ROW: Final = "{:<34} {:<26} {:<9} {:>10} {:>8}  {}"
"""Seeds are those that were run, and the most that would have been."""


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
    results: Path | None = None,
    page: Path | None = None,
) -> bool:
    """Run mutants, the cheapest by the table first, and print what became of each; how far it is goes to a terminal's stderr.

    Args:
        names: which; all but the gaps if none is named.
        first: the first seed; None for the mutant's own.
        seeds: the most seeds for each; None for :data:`SEEDS`.
        nodes: the size of the clusters of whole nodes; None: what the mutant or the seed says.
        tier: only this tier; None for all that the mutants name.
        results: the file that keeps the verdicts; mutants that were caught by its word are not run again.
        page: the page whose tables get the verdicts, and follow the mutants; None for none.

    Returns:
        Whether each was caught in each of its tiers.
    """
    chosen = [MUTANTS[name] for name in names] or [mutant for mutant in MUTANTS.values() if not mutant.is_gap]
    costs = cpu_s_of_rows(PAGE.read_text(encoding="utf-8"))
    tasks = sorted(
        ((mutant, its) for mutant in chosen for its in mutant.tiers if not mutant.equivalent and tier in {None, its}),
        key=lambda task: costs.get((task[0].name, task[1]), UNKNOWN_CPU_S),
    )
    kept = Verdicts(results)
    typer.echo(ROW.format("mutant", "bug", "tier", "seeds", "CPU-s", "caught by"))
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = []
        for mutant, its in tasks:
            begin = first or mutant.first
            known = kept.caught(mutant.name, its, first=begin, kind=mutant.kind)
            if known is None:
                limit = seeds or SEEDS[its]
                running.append(pool.submit(run_mutant, mutant, its, first=begin, seeds=limit, nodes=nodes))
            else:
                verdicts.append(known)
                typer.echo(_row(known, seeds))
        for ended in as_completed(running):
            verdict = ended.result()
            verdicts.append(verdict)
            kept.add(verdict)
            typer.echo(_row(verdict, seeds))
            if sys.stderr.isatty():
                typer.echo(f"{len(verdicts)} of {len(tasks)}\r", err=True, nl=False)
    for mutant in chosen:
        if mutant.equivalent:
            typer.echo(ROW.format(mutant.name, mutant.bug, "-", "-", "-", f"equivalent: {mutant.equivalent}"))
    if page is not None:
        page.write_text(written(page.read_text(encoding="utf-8"), verdicts), encoding="utf-8")
    return _sum_up(verdicts)


def _sum_up(verdicts: Sequence[Verdict]) -> bool:
    """Print the seeds that do not count, how many mutants were caught and what that cost; return whether each was."""
    for void in sorted({f"{verdict.tier} {void}" for verdict in verdicts for void in verdict.void}):
        typer.echo(f"void: {void}")
    for verdict in verdicts:
        for other in verdict.others:
            typer.echo(f"not what must catch it: {verdict.mutant} {verdict.tier} {other}")
    alive = [verdict for verdict in verdicts if verdict.invariant is None]
    bugs = {verdict.mutant for verdict in verdicts} - {verdict.mutant for verdict in alive}
    cpu_s = sum(verdict.cpu_s for verdict in verdicts)
    typer.echo(
        f"{len(verdicts) - len(alive)} of {len(verdicts)} caught, {len(bugs)} different bugs, {cpu_s:.0f} CPU-seconds"
    )
    return not alive


def _row(verdict: Verdict, seeds: int | None) -> str:
    bug = MUTANTS[verdict.mutant].bug
    figures = (f"{verdict.seeds}/{seeds or SEEDS[verdict.tier]}", f"{verdict.cpu_s:.1f}")
    return ROW.format(verdict.mutant, bug, verdict.tier, *figures, verdict.caught_by)


def run_mutant(mutant: Mutant, tier: str, *, first: int, seeds: int, nodes: int | None = None) -> Verdict:
    """Run a mutant in one tier until a seed catches it that the product as it is passes, by an invariant that counts.

    Raises:
        RuntimeError: a process failed: the mutant's text is gone, or its patch is wrong.
    """
    size = mutant.node_count if nodes is None else nodes
    done, following = 0, first
    void: list[str] = []
    others: list[str] = []
    cpu_s = 0.0

    def judge(caught: _Result | None) -> Verdict:
        what = (None, None) if caught is None else (caught["invariant"], caught["violation"])
        kept = tuple(void), cpu_s, first, mutant.kind, today(), tuple(others)
        return Verdict(mutant.name, tier, *what, done, *kept)

    while done < seeds:
        result = _run(mutant.name, tier, following, seeds - done, size)
        done += result["seeds"]
        following = result["last"] + 1
        cpu_s += result["cpu_s"]
        if result["violation"] is None:
            break
        if mutant.catchers and result["invariant"] not in mutant.catchers:
            others.append(f"{result['last']}: {result['violation']}")
            continue
        own = _violation_of_the_product(tier, result["last"], size)
        if own is None:
            return judge(result)
        void.append(f"{result['last']}: {own}")
    return judge(None)


@cache
def _violation_of_the_product(tier: str, seed: int, nodes: int | None) -> str | None:
    """What the product as it is violates on a seed; many mutants are caught by the same one."""
    return _run(UNMUTATED, tier, seed, 1, nodes)["violation"]


def _run(name: str, tier: str, first: int, seeds: int, nodes: int | None) -> _Result:
    command = [sys.executable, "-m", "tests.mutants.process", name, tier, str(first), str(seeds)]
    command += [str(nodes)] if nodes is not None else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process of {name} failed:\n{done.stderr}")
    result: _Result = json.loads(done.stdout)
    return result
