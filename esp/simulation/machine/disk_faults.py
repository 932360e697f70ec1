"""The operations of a simulated disk that fail, and the one at which its process is killed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from esp.simulation.machine.directory_tree import file_error

Operation = Literal["read", "write", "sync", "rename", "remove", "create"]


class ProcessKilledError(BaseException):
    """The process that uses the disk ends here, in the middle of what it was doing (see ``DiskFaults.kill_after``).

    Not an ``Exception``, so that no handler of the code under test takes it for an error that it could live with.
    """


@dataclass(slots=True)
class Fault:
    """Operations on paths that match ``pattern`` (as a shell does) fail with ``error``: ``times`` of them, once ``after`` have passed."""

    operation: Operation
    pattern: str
    error: int
    after: int
    times: int


@dataclass(slots=True)
class DiskFaults:
    """The faults in force and the countdown to the kill. Nothing fails until told."""

    faults: list[Fault] = field(default_factory=list)
    changes: int = 0
    """Operations other than reads that were begun so far: a test kills a second run at each of them."""
    kill_at: int | None = None
    """The value of ``changes`` at which the process is killed instead of going on."""
    killed: bool = False
    on_killed: Callable[[], None] = lambda: None
    """Called at that moment, before anything is raised: the code that is killed gets no say in it."""

    def check(self, operation: Operation, path: str) -> None:
        """Raise what is due for this operation; called before it has any effect.

        Raises:
            OSError: a fault hits it.
            ProcessKilledError: the process is killed here, or was before.
        """
        if operation != "read":
            if self.changes == self.kill_at:
                self.killed = True
                self.on_killed()
            else:
                self.changes += 1
        if self.killed:
            raise ProcessKilledError
        for fault in self.faults:
            if fault.operation == operation and fnmatchcase(path, fault.pattern):
                if fault.after > 0:
                    fault.after -= 1
                elif fault.times > 0:
                    fault.times -= 1
                    raise file_error(fault.error, path)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let nothing fail in the block: it does to the disk what no process of its node does."""
        kept, self.faults = self.faults, []
        try:
            yield
        finally:
            self.faults = kept
