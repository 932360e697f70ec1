"""Whether a mutation is noticed: by the unit tests near its module, else by a bounded sweep of the tiers of the simulator that run it.

Tests and seeds that do not enter the mutated function cannot notice anything. Where it is noted what each enters
(:mod:`tests.mutation.reach`), those that do are run, the cheapest first, and no others.
"""

import logging
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from esp.simulation.seeds import prepare_process
from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM, RUNS
from tests.mutation.applying import VARIABLE
from tests.mutation.forking import WAIT_LIMIT_S, can_put_in, is_noticed
from tests.mutation.operators import Mutation
from tests.mutation.reach import ROOT, Costs, Reach

SWEEPS: Final = (
    ("esp/raft/", ((QUORUM, 60), (NODES, 4))),
    ("esp/storage/", ((LOG, 60), (PARTITION, 20), (NODES, 6))),
    ("esp/replication/", ((PARTITION, 150), (NODES, 6))),
    ("esp/controller/", ((PARTITION, 150), (NODES, 6))),
    ("esp/model/", ((PARTITION, 20), (NODES, 4))),
    ("esp/", ((NODES, 8),)),
)
"""The tiers that run a module, by the beginning of its path: the first row that fits counts."""

TEST_FILES_MAX: Final = 12
"""Unit tests of other modules: so many files at most, where it is not noted which enter the function."""

ENTERING_TESTS_MAX: Final = 150
"""So many tests at most that enter a function: of some there are thousands, as of the one that opens a log."""

_OPTIONS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_PYTEST: Final = ("-m", "pytest", "-p", "tests.mutation.applying", *_OPTIONS)


class Verdict(NamedTuple):
    """Who noticed a mutation; None if nobody did."""

    mutation: Mutation
    noticed_by: str | None


def judge(mutation: Mutation, reach: Reach, *, simulates: bool = True) -> Verdict:
    """Run what may notice a mutation, the cheapest first, until something does; unit tests alone without ``simulates``."""
    costs = reach.find(f"{module_of(mutation.path)}:{mutation.function}")
    near, others = find_tests(mutation.path)
    if costs.tests:
        others = [test for test in costs.tests if test.partition("::")[0] not in near][:ENTERING_TESTS_MAX]
    forks = can_put_in(mutation)
    for tests in filter(None, (near, others)):
        if is_noticed(mutation, partial(_run_tests, tests)) if forks else _is_noticed_anew(mutation, *_PYTEST, *tests):
            return Verdict(mutation, "unit tests")
    sweeps = _sweeps(mutation, costs, is_noted=not reach.is_empty) if simulates else ()
    for tier, seeds in sweeps:
        command = ("-m", "tests.mutation.simulating", tier, *map(str, seeds))
        if is_noticed(mutation, partial(_run_seeds, tier, seeds)) if forks else _is_noticed_anew(mutation, *command):
            return Verdict(mutation, f"the tier {tier}")
    if simulates and forks and _is_noticed_anew(mutation, *_PYTEST, *near, *others):
        return Verdict(mutation, "unit tests, by what the module computes when it is imported")
    return Verdict(mutation, None)


def _is_noticed_anew(mutation: Mutation, *arguments: str) -> bool:
    """True if a process that imports the mutated module ends with a status other than 0, or not in time."""
    source = (ROOT / mutation.path).read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(f"{module_of(mutation.path)}\n{mutation.apply(source)}")
        file.flush()
        environment = {**os.environ, VARIABLE: file.name}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # else each process compiles all modules, half a second of it
        command = [sys.executable, *arguments]
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, timeout=WAIT_LIMIT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return True
        return done.returncode != 0


def _run_tests(tests: Sequence[str]) -> int:
    os.chdir(ROOT)
    return int(pytest.main([*_OPTIONS, *tests]))


def _run_seeds(tier: str, seeds: Sequence[int]) -> int:
    logging.disable(logging.CRITICAL)
    prepare_process()
    return any(RUNS[tier](seed, None).violation is not None for seed in seeds)


def _sweeps(mutation: Mutation, costs: Costs, *, is_noted: bool) -> Iterator[tuple[str, Sequence[int]]]:
    """The seeds of each tier that may notice a mutation; all from the first on if it is not noted what they enter."""
    for tier, count in next(sweeps for start, sweeps in SWEEPS if mutation.path.startswith(start)):
        seeds = costs.seeds.get(tier, ())[:count] if is_noted else range(1, count + 1)
        if seeds:
            yield tier, seeds


def module_of(path: str) -> str:
    """The name of the module that stands in a file of the product."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def find_tests(path: str) -> tuple[list[str], list[str]]:
    """The test file of a module; and others: those of its room that import it, all of its room, and those elsewhere that import it."""
    module = module_of(path)
    room = Path("tests/unit") / Path(path).parent.relative_to("esp")
    own = room / f"test_{Path(path).stem}.py"
    near = [str(own)] if (ROOT / own).exists() else []
    others = [str(file.relative_to(ROOT)) for file in _files(ROOT / room) if _imports(file, module)]
    others += [str(file.relative_to(ROOT)) for file in sorted((ROOT / room).glob("test_*.py"))]
    others += [
        str(file.relative_to(ROOT))
        for file in _files(ROOT / "tests" / "unit")
        if "simulation" not in file.parts and _imports(file, module)
    ]
    unique = [file for file in dict.fromkeys(others) if file not in near]
    return near, unique[:TEST_FILES_MAX]


def _imports(file: Path, module: str) -> bool:
    package, _, name = module.rpartition(".")
    return re.search(rf"\b{module} |from {package} import .*\b{name}\b", file.read_text("utf-8")) is not None


def _files(directory: Path) -> Iterator[Path]:
    return iter(sorted(directory.rglob("test_*.py")))
