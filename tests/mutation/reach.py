"""Which unit tests and which seeds enter a function, and how long each takes: only these can notice a mutation of it.

``python -m tests.mutation.reach`` notes it anew, in a file that is not kept in the repository: a few minutes, before hundreds of mutations
are judged. The notes need not be of the very tree that is judged: where they do not know a function, the judge takes the tests near it.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from esp.simulation.coverage.functions import ROOMS

ROOT: Final = Path(__file__).resolve().parents[2]

MUTATED: Final = (*ROOMS, "esp.model.partition")
"""The packages, and the module, that are mutated."""

NOTES: Final = ROOT / ".cache" / "mutation" / "notes.jsonl"

TESTS_MAX_S: Final = 8.0
"""The seconds of tests that are enough for a function that very many tests enter: the cheapest tests are taken."""

SEEDS: Final[Mapping[str, int]] = {"log": 60, "partition": 150, "quorum": 60, "nodes": 60}
"""The seeds of each tier of which it is noted what they enter."""

_TESTED: Final = (
    "broker",
    "controller",
    "groups",
    "model",
    "placement",
    "producer",
    "raft",
    "replication",
    "share",
    "storage",
    "transactions",
)
"""The folders of ``tests/unit`` whose tests enter functions that are mutated."""


class Note(NamedTuple):
    """What one test or one seed entered."""

    tier: str
    """Empty for a test."""
    name: str
    """The number of a seed, or a test's ``path::name``."""
    seconds: float
    """Seconds of the processor's time."""
    entered: tuple[str, ...]


class Costs(NamedTuple):
    """What enters one function, the cheapest first."""

    tests: tuple[str, ...]
    seeds: Mapping[str, tuple[int, ...]]
    """By tier."""


class Reach:
    """What enters each function.

    Args:
        notes: of the tests and the seeds.
    """

    def __init__(self, notes: Iterable[Note]) -> None:
        seconds = Counter[tuple[str, str]]()
        entering: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for tier, name, took_s, entered in notes:
            seconds[tier, name] += took_s
            for function in entered:
                entering[function].add((tier, name))
        self.is_empty = not entering
        self._seconds = seconds
        self._entering = {
            function: sorted(found, key=lambda one: (seconds[one], one)) for function, found in entering.items()
        }

    def find(self, function: str) -> Costs:
        """The tests and the seeds that enter a function; none if the notes do not know it."""
        seeds: dict[str, list[int]] = defaultdict(list)
        tests = []
        took_s = 0.0
        for tier, name in self._entering.get(function, ()):
            if tier:
                seeds[tier].append(int(name))
            elif (took_s := took_s + self._seconds[tier, name]) < TESTS_MAX_S:
                tests.append(name)
        return Costs(tuple(tests), {tier: tuple(found) for tier, found in seeds.items()})


def write(path: str | Path, note: Note) -> None:
    """Add a note to a file."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(note)}\n")


def load(path: Path = NOTES) -> Reach:
    """The notes of a file; none if it is not there."""
    if not path.exists():
        return Reach(())
    with path.open(encoding="utf-8") as file:
        return Reach(Note(*json.loads(line)) for line in file)


def main() -> None:
    """Note everything anew."""
    NOTES.parent.mkdir(parents=True, exist_ok=True)
    NOTES.unlink(missing_ok=True)
    for tier, seeds in SEEDS.items():
        _run("tests.mutation.noting_seeds", tier, "1", str(seeds), str(NOTES))
    for folder in _TESTED:
        _run("pytest", "-q", "-p", "tests.mutation.noting_tests", "-p", "no:cacheprovider", f"tests/unit/{folder}")


def _run(module: str, *arguments: str) -> None:
    environment = {**os.environ, "ESP_MUTATION_NOTES": str(NOTES)}
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=ROOT, env=environment, check=False)


if __name__ == "__main__":
    main()
