"""Waiting for a condition, with a limit."""

import time
from collections.abc import Callable
from typing import Final

POLL_INTERVAL_S: Final = 0.2


class TooLateError(Exception):
    """A condition did not come true in time; the message names it."""


def wait_for(condition: Callable[[], bool], timeout_s: float, name: str) -> None:
    """Wait until a condition is true.

    Args:
        condition: asked five times a second.
        timeout_s: the time that it may take.
        name: what is waited for, as a noun phrase.

    Raises:
        TooLateError: the condition was not true in time.
    """
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TooLateError(f"{name}: not within {timeout_s:.0f} s")
        time.sleep(POLL_INTERVAL_S)
