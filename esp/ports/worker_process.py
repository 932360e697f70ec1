"""A process beside the node's for long computations in Python: in a thread they would keep the interpreter from the loop."""

from collections.abc import Callable, Generator
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from esp.ports.disk import Disk

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")


class WorkerProcess(Protocol):
    """Started when it is first needed, of low priority, and gone with the node's process."""

    @property
    def is_started(self) -> bool:
        """True if a process was started that :meth:`stop` has not ended since."""

    def iterate_blocking(
        self,
        function: Callable[Concatenate[Disk, Arguments], Generator[Item, None, None]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Generator[Item, None, None]:
        """Yield, or raise, what ``function`` does there, with the disk of that process; it goes on when the next item is asked for.

        One at a time. A generator that is closed before its end ends the process. Arguments and items are copied on the way: what they
        hold is values, and disks, in whose place each side has its own.

        Args:
            function: of a module, which the process imports.
            args: its arguments after the disk.
            kwargs: the same.

        Raises:
            ChildProcessError: the process ended before ``function`` did; the next call starts another.
            OSError: no process can be started.
        """

    def stop(self) -> None:
        """End the process at once, if it runs, whatever it does; may be called on the loop."""
