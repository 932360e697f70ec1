"""The CPU time of clients, from the kernel's accounts: a process with all below it, and commands that have ended."""

import os
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from esp.testing.node_process import CpuSeconds

_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")


class SparkProcesses:
    """A Spark session in local mode: this process, which is the driver's Python, and the JVM with all processes below it.

    Args:
        jvm_pid: of the JVM.
    """

    def __init__(self, jvm_pid: int) -> None:
        self._jvm_pid = jvm_pid

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time so far."""
        own, tree = resource.getrusage(resource.RUSAGE_SELF), tree_cpu_seconds(self._jvm_pid)
        return CpuSeconds(own.ru_utime + tree.user, own.ru_stime + tree.system)


class EndedCommands:
    """The commands that this process has started, and that have ended."""

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time so far."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        return CpuSeconds(ended.ru_utime, ended.ru_stime)


def tree_cpu_seconds(pid: int) -> CpuSeconds:
    """Return the CPU time of a process and of all below it, those that have ended too (Linux; steps of 10 ms)."""
    user = system = 0
    for each in _tree(pid):
        with suppress(OSError):  # it has ended meanwhile
            fields = _stat_fields(Path(f"/proc/{each}/stat"))
            user += int(fields[11]) + int(fields[13])
            system += int(fields[12]) + int(fields[14])
    return CpuSeconds(user / _TICKS_PER_SECOND, system / _TICKS_PER_SECOND)


def find_jvm() -> int:
    """Return the process id of the JVM that PySpark started for this process.

    Raises:
        RuntimeError: there is none.
    """
    for pid in _children(os.getpid()):
        with suppress(OSError):
            if (Path(f"/proc/{pid}/comm").read_text().strip(), _is_broker(pid)) == ("java", False):
                return pid
    raise RuntimeError("PySpark started no JVM of its own")


def _is_broker(pid: int) -> bool:
    return b"kafka.Kafka" in Path(f"/proc/{pid}/cmdline").read_bytes()


def _tree(pid: int) -> list[int]:
    """The process and all below it.

    By the parents that all processes name: the kernel's lists of a thread's children lack some while threads of their parent end.
    """
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            children.setdefault(int(_stat_fields(path)[1]), []).append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += children.get(each, ())
    return found


def _stat_fields(path: Path) -> list[str]:
    """The fields behind the second one, which is the command's name in parentheses and may hold blanks."""
    return path.read_text().rpartition(")")[2].split()


def _children(pid: int) -> Iterator[int]:
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # the thread has ended meanwhile
            yield from map(int, path.read_text().split())
