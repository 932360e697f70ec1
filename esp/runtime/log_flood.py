"""Keeps floods out of the log: a client that connects and is refused ten thousand times a second must not fill a disk or slow others.

Each place in the code that logs has a number of lines in each window of time; further lines are counted, and the count is reported with
its first line of the next window that has one. Errors and worse are never left out.
"""

import logging
from typing import Final

WINDOW_S: Final = 10.0
LINES_MAX: Final = 100
"""The most lines of one place in the code in one window: more than a person reads, and than a healthy node logs."""


class _Place:
    """The lines of one place in the code since ``begun_s``."""

    __slots__ = ("begun_s", "lines")

    def __init__(self) -> None:
        self.begun_s = float("-inf")
        self.lines = 0


class FloodFilter(logging.Filter):
    """For a handler. Time is that of the records, in seconds since the Unix epoch; where it is set back, a new window begins."""

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], _Place] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """True if the record is logged; its message may get the number of lines that were left out."""
        if record.levelno >= logging.ERROR:
            return True
        key = (record.pathname, record.lineno)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = _Place()
        if not 0 <= record.created - place.begun_s < WINDOW_S:
            left_out = place.lines - LINES_MAX
            place.begun_s, place.lines = record.created, 0
            if left_out > 0:
                record.msg = f"{record.getMessage()} ({left_out} lines like this were left out before)"
                record.args = None
        place.lines += 1
        return place.lines <= LINES_MAX
