"""The events of a run: a hash of everything for comparisons, and lines for people.

Two runs with equal hashes did the same things at the same times. The hash covers every delivery of bytes, every wait for a device, every
fault and every remark; lines are kept only where a caller reads them.
"""

import contextlib
import logging
from collections.abc import Callable, Iterator
from zlib import crc32


class Trace:
    """Collects events.

    Args:
        now_s: the simulation's time.
        keep: called with each line; without it the trace is not read, and lines cost nothing but their hash.
    """

    def __init__(self, now_s: Callable[[], float], keep: Callable[[str], None] | None = None) -> None:
        self._now_s = now_s
        self._keep = keep
        self._hash = 0
        self._counted_s = -1.0
        self._counted_at = ""
        """The time of the last event, and how that is written: often many come at one moment."""
        self.events = 0

    def count(self, kind: str, who: str, size: int) -> None:
        """Take a frequent event into the hash only: its kind, the node or host that it happened to, and how large it was."""
        self.events += 1
        now_s = self._now_s()
        if now_s != self._counted_s:
            self._counted_s, self._counted_at = now_s, repr(now_s)
        self._hash = crc32(f"{self._counted_at} {kind} {who} {size}".encode(), self._hash)

    def say(self, who: str, text: str) -> None:
        """Take a line."""
        self.count("says", who, len(text))
        self.show(who, text)

    def show(self, who: str, text: str) -> None:
        """Show a line to the reader of the trace only: it does not count for the hash."""
        if self._keep is not None:
            self._keep(f"{self._now_s():10.6f} {who:<10} {text}")

    @property
    def is_read(self) -> bool:
        """True if the lines are read: else they need not be made."""
        return self._keep is not None

    @property
    def digest(self) -> str:
        """The hash so far."""
        return f"{self.events:x}-{self._hash:08x}"


class _TraceHandler(logging.Handler):
    """Gives what nodes log to a trace."""

    def __init__(self, trace: Trace, who: Callable[[], str]) -> None:
        super().__init__()
        self._trace = trace
        self._who = who

    def emit(self, record: logging.LogRecord) -> None:
        self._trace.show(self._who(), f"logs: {record.getMessage()}")


@contextlib.contextmanager
def logged_to(trace: Trace, who: Callable[[], str]) -> Iterator[None]:
    """Let all that the nodes log go to a trace that is read, and nowhere else."""
    logger = logging.getLogger("esp")
    handler: logging.Handler = _TraceHandler(trace, who) if trace.is_read else logging.NullHandler()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO if trace.is_read else logging.CRITICAL + 1)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def silence() -> None:
    """Let nodes log nothing in this process. A handler hears a logger of its own all the same, once it has set the level of that one:
    ``logging.disable`` would make :class:`~esp.simulation.checkers.losses_told.LossesTold` deaf.
    """
    for name in ("esp", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
