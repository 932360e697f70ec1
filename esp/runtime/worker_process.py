"""A process beside the node's, for computations (:class:`esp.ports.worker_process.WorkerProcess`): both ends of it.

The process reads what it is to do from its standard input, and writes items to its standard output, as pickles: both ends are the same
program, and nothing else has the pipes.

It ends when its input does, whatever it is doing, and it has the locks of the node's directories as long as it is there. So of a node that
was killed nothing is written any more once the next node has these locks.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any, Concatenate, Final, ParamSpec, TypeVar

from esp.ports.disk import Disk
from esp.runtime.os_disk import OsDisk

NICENESS: Final = 10
"""The work is in the background: whatever answers clients comes first."""

OUT_OF_MEMORY: Final = 12
"""The status of a process that got no memory: ENOMEM."""

_ITEM: Final = "item"
_END: Final = "end"
_ERROR: Final = "error"
"""The kinds of messages from the process, each with a value."""

_DISK: Final = "disk"
"""Stands for the disk of either side."""

Arguments = ParamSpec("Arguments")
Item = TypeVar("Item")


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: object) -> str | None:
        return _DISK if isinstance(obj, OsDisk) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: IO[bytes], disk: Disk) -> None:
        super().__init__(file)
        self._disk = disk

    def persistent_load(self, pid: object) -> Disk:
        assert pid == _DISK
        return self._disk


class OsWorkerProcess:
    """The node's end (:class:`esp.ports.worker_process.WorkerProcess`).

    Args:
        disk: the node's.
        name: of the work, for the process's command line.
    """

    def __init__(self, disk: OsDisk, name: str) -> None:
        self._disk = disk
        self._command = [sys.executable, "-m", __name__, name]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None if none runs."""
        return None if self._process is None else self._process.pid

    @property
    def is_started(self) -> bool:
        """See :class:`esp.ports.worker_process.WorkerProcess`."""
        return self._process is not None

    def iterate_blocking(
        self,
        function: Callable[Concatenate[Disk, Arguments], Generator[Item, None, None]],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Generator[Item, None, None]:
        """See :class:`esp.ports.worker_process.WorkerProcess`."""
        process = self._process = self._process or self._start()
        is_at_end = False
        try:
            self._send(process, (function, args, kwargs))
            kind, value = self._receive(process)
            while kind == _ITEM:
                yield value
                self._send(process, None)
                kind, value = self._receive(process)
            is_at_end = True
            if kind == _ERROR:
                raise value
        finally:
            if not is_at_end:
                _end(process)
                if self._process is process:
                    self._process = None

    def stop(self) -> None:
        """See :class:`esp.ports.worker_process.WorkerProcess`."""
        process, self._process = self._process, None
        if process is not None:
            _end(process)

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=self._disk.held_locks()
        )

    def _send(self, process: subprocess.Popen[bytes], value: object) -> None:
        assert process.stdin is not None
        try:
            _Pickler(process.stdin, pickle.HIGHEST_PROTOCOL).dump(value)
            process.stdin.flush()
        except (BrokenPipeError, ValueError):  # ValueError: it was stopped meanwhile
            raise _death_of(process) from None

    def _receive(self, process: subprocess.Popen[bytes]) -> Any:
        assert process.stdout is not None
        try:
            return _Unpickler(process.stdout, self._disk).load()
        except (EOFError, pickle.UnpicklingError, ValueError):
            raise _death_of(process) from None


def _death_of(process: subprocess.Popen[bytes]) -> ChildProcessError:
    process.kill()
    status = process.wait()
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return ChildProcessError(f"the worker process {process.pid} {how}")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):  # what was not sent is of no use any more
            pipe.close()


def main() -> None:
    """Work for the node's process until it closes the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):  # meant for the node, which ends this process
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    disk = OsDisk()
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not get among the items
    asked: SimpleQueue[Any] = SimpleQueue()
    threading.Thread(target=_listen, args=(source, disk, asked), daemon=True).start()
    with suppress(BrokenPipeError):
        while True:
            function, args, kwargs = asked.get()
            _work(asked, sink, function(disk, *args, **kwargs))
    os._exit(0)


def _listen(source: IO[bytes], disk: Disk, asked: SimpleQueue[Any]) -> None:
    """Take in what the node's process says, and end this one with it, in the midst of a step too."""
    try:
        while True:
            asked.put(_Unpickler(source, disk).load())
    except (EOFError, pickle.UnpicklingError):
        os._exit(0)  # at once: nothing here is worth a clean end
    except Exception:  # such as of an import: the node must not wait for an answer
        traceback.print_exc()
        os._exit(1)


def _work(asked: SimpleQueue[Any], sink: IO[bytes], items: Generator[object, None, None]) -> None:
    """Send the items, one each time that the node's process asks for it."""
    kind = _ITEM
    while kind == _ITEM:
        value: object = None
        try:
            value = next(items)
        except StopIteration:
            kind = _END
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except Exception as error:
            kind, value = _ERROR, error
        _Pickler(sink, pickle.HIGHEST_PROTOCOL).dump((kind, value))
        sink.flush()
        if kind == _ITEM:
            asked.get()


if __name__ == "__main__":
    main()
