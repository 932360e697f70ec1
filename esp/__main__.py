"""The command ``esp``.

The commands that run nodes go their own way, past the libraries of the tools (typer, rich, kafka-python): a node is to be ready within a
second.
"""

import errno
import importlib
import os
import sys
from contextlib import suppress
from typing import Final

from esp.cli.interruption import STATUS, end_interrupted, was_interrupted, watch_for_interrupts

_NODE_COMMANDS: Final = {
    "broker": ("esp.cli.node.broker", "run"),
    "cluster": ("esp.cli.node.cluster", "run"),
    "format": ("esp.cli.node.format", "run"),
    "random-uuid": ("esp.cli.node.format", "print_random_uuid"),
}
"""Module and function of each; the function takes the arguments and returns the exit status."""


_COMPLETE: Final = "_ESP_COMPLETE"
"""The variable by which typer's scripts for shells ask what to complete."""
_OUTPUT_ERRORS: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EPIPE)


def main() -> None:
    """Run the command line and exit with its status; Ctrl-C and an output that takes no more are told in a line."""
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        end_interrupted()
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS:
            raise
        _give_up_output()
        status = 1
        if error.errno != errno.EPIPE:  # the reader has seen enough, and knows it
            where = error.filename or "standard output"
            _say(f"esp: {where} cannot be written: {error.strerror}\n  Make room there, or write somewhere else.")
    if status == STATUS or was_interrupted():
        end_interrupted()  # the alarm of an interruption would kill the interpreter while it ends
    sys.exit(status)


def _run(arguments: list[str]) -> int:
    """Run the command; return its exit status."""
    module, function = _NODE_COMMANDS.get(arguments[0], ("", "")) if arguments else ("", "")
    try:
        if module:
            status: int = getattr(importlib.import_module(module), function)(arguments[1:])
            return status
        watch_for_interrupts()
        if _COMPLETE in os.environ:
            from esp.cli.name_completion import complete, find_wanted  # noqa: PLC0415 - as below

            if wanted := find_wanted(os.environ):
                sys.stdout.write(complete(wanted, os.environ))
                return 0
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
