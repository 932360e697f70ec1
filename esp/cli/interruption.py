"""Ctrl-C ends a tool in a line, and soon: whatever its libraries make of it."""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import Final, NoReturn

STATUS: Final = 128 + signal.SIGINT
"""The exit status: what a shell shows of a process that SIGINT has ended."""

_ENDS_WITHIN_S: Final = 2


def watch_for_interrupts() -> None:
    """From now on raise KeyboardInterrupt at Ctrl-C; a command that goes on nevertheless is ended by :func:`end_interrupted`."""
    signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(_number: int, _frame: FrameType | None) -> None:
    """kafka-python may take the exception for a failed connection, and connect again."""
    signal.signal(signal.SIGINT, end_interrupted)
    signal.signal(signal.SIGALRM, end_interrupted)
    signal.alarm(_ENDS_WITHIN_S)
    raise KeyboardInterrupt


def end_interrupted(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Say so, and end the process; threads of clients that are in the middle of something are not waited for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):  # nobody can be told, or nothing be written
        sys.stderr.write("esp: interrupted\n")
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(STATUS)
