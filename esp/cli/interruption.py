"""Ctrl-C ends a tool soon and with one line of output, even if a library swallows the exception."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, NoReturn

STATUS: Final = 128 + signal.SIGINT
"""The exit status: what a shell shows of a process that SIGINT has ended."""

_ENDS_WITHIN_S: Final = 2


def watch_for_interrupts() -> None:
    """Raise KeyboardInterrupt at Ctrl-C from now on; a command that goes on nevertheless is ended by :func:`end_interrupted`."""
    signal.signal(signal.SIGINT, _on_interrupt)


def _on_interrupt(_number: int, _frame: FrameType | None) -> None:
    """kafka-python may take the exception for a failed connection, and connect again."""
    signal.signal(signal.SIGINT, end_interrupted)
    signal.signal(signal.SIGALRM, end_interrupted)
    signal.alarm(_ENDS_WITHIN_S)
    raise KeyboardInterrupt


@contextmanager
def held_interrupt() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C wait for the end of work that would else be half done. Pressed once more, it ends the process at once.

    Yields:
        A function that says whether Ctrl-C was pressed, so that the work comes to an end.

    Raises:
        KeyboardInterrupt: behind the work, if it was; before it, if a library has swallowed an earlier one: the process is about to end.
    """
    if was_interrupted():
        raise KeyboardInterrupt
    is_pressed = False

    def hold(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_pressed
        is_pressed = True
        signal.signal(signal.SIGINT, end_interrupted)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield lambda: is_pressed
    finally:
        signal.signal(signal.SIGINT, before)
    if is_pressed:
        signal.raise_signal(signal.SIGINT)


def was_interrupted() -> bool:
    """True if Ctrl-C was pressed: an error that comes after it may be what a library has made of the exception."""
    return signal.getsignal(signal.SIGINT) is end_interrupted


def end_interrupted(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    """Report the interruption, and end the process without waiting for the threads of clients."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError):  # stderr is closed, or stdout cannot be flushed
        sys.stderr.write("esp: interrupted\n")
        sys.stderr.flush()
        sys.stdout.flush()
    os._exit(STATUS)
