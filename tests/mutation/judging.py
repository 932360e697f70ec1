"""Whether a mutation is noticed: by the unit tests near its module, else by a bounded sweep of the tiers of the simulator that run it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from esp.simulation.tiers import LOG, NODES, PARTITION, QUORUM
from tests.mutation.applying import VARIABLE
from tests.mutation.operators import Mutation

ROOT: Final = Path(__file__).resolve().parents[2]

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
"""Unit tests of other modules: so many files at most."""

_TESTS_LIMIT_S: Final = 240
_SWEEP_LIMIT_S: Final = 600
"""A mutation that makes something run so long is noticed."""


class Verdict(NamedTuple):
    """Who noticed a mutation; None if nobody did."""

    mutation: Mutation
    noticed_by: str | None


def judge(mutation: Mutation) -> Verdict:
    """Run what may notice it, the cheapest first, until something does."""
    source = (ROOT / mutation.path).read_text(encoding="utf-8")
    module = module_of(mutation.path)
    with tempfile.NamedTemporaryFile("w", suffix=".py", encoding="utf-8") as file:
        file.write(f"{module}\n{mutation.apply(source)}")
        file.flush()
        environment = {**os.environ, VARIABLE: file.name}
        near, others = find_tests(mutation.path)
        for files in (near, others):
            if files:
                pytest = ["-m", "pytest", "-x", "-q", "-p", "tests.mutation.applying", "-p", "no:cacheprovider"]
                if _fails([*pytest, *files], environment, _TESTS_LIMIT_S):
                    return Verdict(mutation, "unit tests")
        for tier, seeds in next(sweeps for start, sweeps in SWEEPS if mutation.path.startswith(start)):
            if _fails(["-m", "tests.mutation.simulating", tier, "1", str(seeds)], environment, _SWEEP_LIMIT_S):
                return Verdict(mutation, f"the tier {tier}")
    return Verdict(mutation, None)


def module_of(path: str) -> str:
    """The name of the module that stands in a file of the product."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def find_tests(path: str) -> tuple[list[str], list[str]]:
    """The test file of a module; and others: those of its room that import it, all of its room, and those elsewhere that import it."""
    module = module_of(path)
    room = Path("tests/unit") / Path(path).parent.relative_to("esp")
    own = room / f"test_{Path(path).stem}.py"
    near = [str(own)] if (ROOT / own).exists() else []
    others = [str(file.relative_to(ROOT)) for file in _files(ROOT / room) if f"{module} " in file.read_text("utf-8")]
    others += [str(file.relative_to(ROOT)) for file in sorted((ROOT / room).glob("test_*.py"))]
    others += [
        str(file.relative_to(ROOT))
        for file in _files(ROOT / "tests" / "unit")
        if "simulation" not in file.parts and f"{module} " in file.read_text("utf-8")
    ]
    unique = [file for file in dict.fromkeys(others) if file not in near]
    return near, unique[:TEST_FILES_MAX]


def _files(directory: Path) -> Iterator[Path]:
    return iter(sorted(directory.rglob("test_*.py")))


def _fails(arguments: list[str], environment: dict[str, str], limit_s: float) -> bool:
    try:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0
