"""Runs ``esp`` in this process under a profiler that two signals switch: ``profiled_node.py HOW FILE ESP-ARGUMENTS...``.

SIGUSR1 begins, SIGUSR2 ends and writes FILE; start-up and shutdown stay out of it. ``calls`` counts and times every call (cProfile: exact
counts, but it makes small functions look expensive); ``samples`` looks at the stack every few milliseconds of CPU time (truthful shares,
no counts). A signal's handler runs between two bytecodes: the event loop's own time, system calls included, is sampled at the first line
of the callback that comes next.
"""

import cProfile
import json
import os
import runpy
import signal
import sys
from collections import Counter
from types import FrameType
from typing import Final, Protocol

SAMPLING_INTERVAL_S: Final = 0.001
"""Asked for; the kernel rounds up to its own tick, which is some milliseconds."""


class Profiler(Protocol):
    """A profiler that the two signals switch on and off."""

    def begin(self) -> None:
        """Start to observe."""
        ...

    def end(self, path: str) -> None:
        """Stop, and write what was seen to ``path``."""
        ...


class CallProfiler:
    """Counts and times calls; writes a file for ``pstats``."""

    def __init__(self) -> None:
        self._profile = cProfile.Profile()

    def begin(self) -> None:
        """Start to observe."""
        self._profile.enable()

    def end(self, path: str) -> None:
        """Stop, and write what was seen to ``path``."""
        self._profile.disable()
        self._profile.dump_stats(path)


class StackSampler:
    """Counts stacks; writes JSON: the number of samples, and how many were at each line and anywhere below each function."""

    def __init__(self) -> None:
        self._samples = 0
        self._lines: Counter[str] = Counter()
        self._functions: Counter[str] = Counter()

    def begin(self) -> None:
        """Start to observe."""
        signal.signal(signal.SIGPROF, self._on_sample)
        signal.setitimer(signal.ITIMER_PROF, SAMPLING_INTERVAL_S, SAMPLING_INTERVAL_S)

    def end(self, path: str) -> None:
        """Stop, and write what was seen to ``path``."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        with open(path, "w") as file:
            json.dump({"samples": self._samples, "lines": self._lines, "functions": self._functions}, file)

    def _on_sample(self, _number: int, frame: FrameType | None) -> None:
        if frame is None:
            return
        self._samples += 1
        code = frame.f_code
        self._lines[f"{_short(code.co_filename)}:{frame.f_lineno} {code.co_qualname}"] += 1
        functions = set()
        while frame is not None:
            functions.add(f"{_short(frame.f_code.co_filename)} {frame.f_code.co_qualname}")
            frame = frame.f_back
        self._functions.update(functions)


def _short(path: str) -> str:
    """The path's last two parts, which name a module well enough."""
    return "/".join(path.split(os.sep)[-2:])


def main() -> None:
    """Install the switches and become ``esp``."""
    how, path, *arguments = sys.argv[1:]
    profiler: Profiler = CallProfiler() if how == "calls" else StackSampler()
    ready_path = path + ".part"

    def on_end(_number: int, _frame: FrameType | None) -> None:
        profiler.end(ready_path)
        os.replace(ready_path, path)  # a reader that waits for the file finds it whole

    signal.signal(signal.SIGUSR1, lambda _number, _frame: profiler.begin())
    signal.signal(signal.SIGUSR2, on_end)
    # The folder of this script stands in front of the path; its module names must not hide others.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    sys.argv = ["esp", *arguments]
    runpy.run_module("esp", run_name="__main__")


if __name__ == "__main__":
    main()
