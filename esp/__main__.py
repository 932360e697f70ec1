"""The command ``esp``.

The commands that run nodes go their own way, past the libraries of the tools (typer, rich, kafka-python): a node is to be ready within a
second.
"""

import errno
import importlib
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Final

_NODE_COMMANDS: Final = {
    "broker": ("esp.cli.node.broker", "run"),
    "cluster": ("esp.cli.node.cluster", "run"),
    "format": ("esp.cli.node.format", "run"),
    "random-uuid": ("esp.cli.node.format", "print_random_uuid"),
}
"""Module and function of each; the function takes the arguments and returns the exit status."""


_INTERRUPTED: Final = 128 + signal.SIGINT
"""The exit status after Ctrl-C: what a shell shows of a process that SIGINT has ended."""
_ENDS_WITHIN_S: Final = 2
_OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main() -> None:
    """Run the command line and exit with its status; Ctrl-C and an output that takes no more are told in a line."""
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = _INTERRUPTED
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        _give_up_output()
        status = 1
        if error.errno != errno.EPIPE:  # the reader has seen enough, and knows it
            where = error.filename or "standard output"
            _say(f"esp: {where} cannot be written: {error.strerror}\n  Make room there, or write somewhere else.")
    if status == _INTERRUPTED:
        _end_interrupted()
    sys.exit(status)


def _on_interrupt(_number: int, _frame: FrameType | None) -> None:
    """Have the command end; at once if it does not soon: the client library may take the exception for a failed connection."""
    signal.signal(signal.SIGINT, _end_interrupted)
    signal.signal(signal.SIGALRM, _end_interrupted)
    signal.alarm(_ENDS_WITHIN_S)
    raise KeyboardInterrupt


def _end_interrupted(_number: int = 0, _frame: FrameType | None = None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say("esp: interrupted")
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(_INTERRUPTED)  # threads of clients that are in the middle of something are not waited for


def _run(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    module, function = _NODE_COMMANDS.get(arguments[0], ("", "")) if arguments else ("", "")
    try:
        if module:
            status: int = getattr(importlib.import_module(module), function)(arguments[1:])
            return status
        signal.signal(signal.SIGINT, _on_interrupt)
        from esp.cli.app import run_tools  # noqa: PLC0415 - each way loads only what it needs

        return run_tools(arguments)
    except SystemExit as end:  # how argparse ends
        return end.code if isinstance(end.code, int) else int(end.code is not None)


def _give_up_output() -> None:
    """Throw away what could not be written, which the interpreter would try again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.__stdout__.fileno() if sys.__stdout__ is not None else 1)
    os.close(nowhere)


def _say(text: str) -> None:
    with suppress(OSError):  # nobody can be told
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
