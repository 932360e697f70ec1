"""Nothing that runs on the simulator asks what differs from run to run (:mod:`tests.architecture.determinism`)."""

from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.architecture.determinism import find_indeterminism

ROOT: Final = Path(__file__).resolve().parents[2]

NEVER_SIMULATED: Final = (
    "esp/runtime",
    "esp/cli",
    "esp/testing",
    "esp/rebalance",
    "esp/consumer",
    "esp/executor",
    "esp/capture",
    "esp/options",
    "esp/sink",
    "esp/spark",
    "esp/sql",
)
"""The real bodies of the seams, and what runs beside a cluster."""

EXCEPTIONS: Final = {
    ("esp/broker/waiting.py", "asyncio.get_running_loop().time"): "asyncio's own time-out is told asyncio's own time",
    ("esp/groups/consumer/group.py", "held - held_before"): "each partition gets its owner by itself, in any order",
    ("esp/groups/consumer/group.py", "held_before - held"): "as above",
    ("esp/simulation/coverage/report.py", "concurrent.futures.ThreadPoolExecutor"): "waits for processes that simulate",
    ("esp/simulation/coverage/report.py", "subprocess.run"): "as above",
    ("esp/simulation/fleet.py", "multiprocessing.get_context"): "runs many simulations, each in one process",
    ("esp/simulation/machine/loop.py", "asyncio.all_tasks"): "what is left when it closes, and a report that is sorted",
    ("esp/simulation/tiers.py", "time.process_time"): "tells how long a simulation took",
    ("esp/simulation/seeds.py", "time.process_time"): "tells how long a simulation took",
    ("esp/storage/last_stop.py", "epochs"): "the one element of a set of one",
}
"""What may stand where, and why."""


@cache
def findings() -> dict[tuple[str, str], str]:
    """All findings in code that is simulated, by module and by what was found."""
    found = {}
    for path in sorted((ROOT / "esp").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(NEVER_SIMULATED):
            is_simulator = name.startswith("esp/simulation/")
            for finding in find_indeterminism(path.read_text(encoding="utf-8"), has_virtual_loop=is_simulator):
                found[name, finding.what] = f"{name}: {finding}"
    return found


def test_what_runs_on_the_simulator_is_the_same_in_every_run() -> None:
    assert [text for place, text in findings().items() if place not in EXCEPTIONS] == []


def test_no_exception_outlives_its_reason() -> None:
    assert [place for place in EXCEPTIONS if place not in findings()] == []


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("import time\ntime.monotonic()\n", "time.monotonic"),
        ("import time as t\nnow = t.time\n", "time.time"),
        ("import datetime as dt\ndt.datetime.now(dt.UTC)\n", "datetime.datetime.now"),
        ("import random\nrandom.random()\n", "random.random"),
        ("import random\nrandom.Random()\n", "random.Random()"),
        ("import uuid\nuuid.uuid4()\n", "uuid.uuid4"),
        ("import os\nos.urandom(8)\n", "os.urandom"),
        ("import secrets\nsecrets.token_bytes(8)\n", "secrets.token_bytes"),
        ("import asyncio\nasync def f(tasks):\n    await asyncio.wait(tasks)\n", "asyncio.wait"),
        ("import asyncio\nfor done in asyncio.as_completed([]):\n    pass\n", "asyncio.as_completed"),
        ("import asyncio\nasync def f():\n    async with asyncio.TaskGroup():\n        pass\n", "asyncio.TaskGroup"),
        ("import asyncio\nasyncio.to_thread(print)\n", "asyncio.to_thread"),
        ("def f(loop):\n    return loop.time()\n", "loop.time"),
        ("import asyncio\nasyncio.get_running_loop().time()\n", "asyncio.get_running_loop().time"),
        ("def f(loop):\n    return loop.run_in_executor(None, print)\n", "loop.run_in_executor"),
        ("import threading\nthreading.Thread()\n", "threading.Thread"),
        (
            "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()\n",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("import weakref\nweakref.WeakSet()\n", "weakref.WeakSet"),
        ("import signal\nsignal.alarm(1)\n", "signal.alarm"),
        ("with open('x') as file:\n    pass\n", "open"),
        ("def shard(name):\n    return hash(name) % 8\n", "hash(name)"),
        ("def f(tasks):\n    return sorted(tasks, key=id)\n", "sorted(tasks, key=id)"),
        ("def f(x):\n    return min(x, key=lambda y: id(y))\n", "min(x, key=lambda y: id(y))"),
    ],
)
def test_call_that_differs_from_run_to_run_is_found(source: str, what: str) -> None:
    assert what in [finding.what for finding in find_indeterminism(source)]


@pytest.mark.parametrize(
    "source",
    [
        "from time import monotonic\n",
        "from random import choice\n",
        "from uuid import uuid4\n",
        "from asyncio import TaskGroup\n",
        "from os import urandom\n",
        "from weakref import WeakSet\n",
    ],
)
def test_import_of_what_is_banned_is_enough(source: str) -> None:
    assert [finding.line for finding in find_indeterminism(source)] == [1]


@pytest.mark.parametrize(
    "source",
    [
        "for name in {'a', 'b'}:\n    print(name)\n",
        "def f(x):\n    return [y for y in set(x)]\n",
        "def f(x):\n    return list(frozenset(x))\n",
        "def f(x):\n    return ','.join({str(y) for y in x})\n",
        "def f(x):\n    return [*{y.name for y in x}]\n",
        "def f(x):\n    return next(iter(set(x) - {1}))\n",
        "def f(x, y):\n    for z in set(x).union(y):\n        print(z)\n",
        "def f(x):\n    names = {y.name for y in x}\n    for name in names:\n        print(name)\n",
        "def f(names: set[str]):\n    for name in names:\n        print(name)\n",
        "class A:\n    tasks: set[Task]\n    def f(self):\n        for task in self.tasks:\n            task.cancel()\n",
        "class A:\n    def __init__(self):\n        self._tasks: 'set[Task]' = set()\n    def f(self):\n        return self._tasks.pop()\n",
        "def f(x):\n    return {y: None for y in set(x)}\n",
    ],
)
def test_order_of_a_set_is_found_where_it_can_be_told(source: str) -> None:
    assert "keep a dict" in str(find_indeterminism(source)[0])


@pytest.mark.parametrize(
    "source",
    [
        "def f(names: set[str]):\n    return sorted(names), len(names), 'a' in names\n",
        "def f(names: set[str]):\n    return sorted(name.upper() for name in names), any(map(bool, names))\n",
        "def f(names: set[str], other: set[str]):\n    return names | other, {name.upper() for name in names}\n",
        "def f(nodes: set[int]):\n    for node in nodes:\n        print(node)\n",
        "def f(names: dict[str, None]):\n    for name in names:\n        print(name)\n",
        "for number in {1, 2}:\n    print(number)\n",
        "def f(names):\n    names = set(names)\n    return names\ndef g(names: list[str]):\n    return [*names]\n",
        "import random\nrng = random.Random(4)\nrng.random()\n",
        "from random import Random\nRandom('seed')\n",
        "import uuid\nuuid.UUID(int=4)\n",
        "import datetime as dt\ndt.timedelta(seconds=1)\n",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)\n    async with asyncio.timeout(1):\n        pass\n",
        "class A:\n    def __hash__(self):\n        return hash(self.name)\n",
        "class Disk:\n    def open(self, path): ...\nDisk().open('x')\n",
        "def f(clock, time):\n    return clock.time(), time.monotonic()\n",
        "def f(x, seen):\n    return id(x) in seen\n",
    ],
)
def test_what_is_the_same_in_every_run_is_allowed(source: str) -> None:
    assert find_indeterminism(source) == []


def test_time_of_the_simulators_own_loop_is_as_good_as_a_clocks() -> None:
    assert find_indeterminism("def f(loop):\n    return loop.time()\n", has_virtual_loop=True) == []


def test_finding_says_where_it_is_and_what_to_do() -> None:
    assert [str(finding) for finding in find_indeterminism("import os\n\nos.urandom(4)\n")] == [
        "line 3: os.urandom: draw from the Random seam, or from a stream of the seed"
    ]
