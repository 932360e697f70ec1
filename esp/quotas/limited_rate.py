"""A rate that is held against a limit, for requests that come often: most are a sum and two comparisons.

When the rate has been looked at, it is known how much more may come before it can exceed the limit, and until when the present sample goes
on. What comes within these bounds is added up and recorded later, as of the time of the last of it: the result is that of the rate alone.
"""

import math
from copy import deepcopy
from typing import Final

from esp.quotas.rate import Rate, Windows

_NONE: Final = -math.inf
"""The room of a rate that has to be looked at."""


class LimitedRate:
    """The use of all clients that share a limit.

    Args:
        windows: those of the rate.
        limit: a second.
        now_ms: the present time.
    """

    __slots__ = ("_last_ms", "_pending", "_rate", "_room", "_until_ms", "limit")

    def __init__(self, windows: Windows, limit: float, now_ms: int) -> None:
        self._rate = Rate(windows, now_ms)
        self.limit = limit
        self._pending = 0.0
        """Counted and not recorded yet."""
        self._last_ms = now_ms
        """The time of the last of it."""
        self._room = _NONE
        self._until_ms = now_ms

    def set_limit(self, limit: float) -> None:
        """Another limit counts from now on."""
        if limit != self.limit:
            self.limit = limit
            self._room = _NONE

    def count(self, amount: float, now_ms: int) -> int:
        """Count an amount; return the time after which the rate is down to the limit; a negative one is taken back."""
        pending = self._pending + amount
        if pending <= self._room and now_ms < self._until_ms:
            self._pending = pending
            self._last_ms = now_ms
            return 0
        self._settle()
        rate = self._rate
        rate.record(amount, now_ms)
        throttle_ms = rate.throttle_ms(self.limit, now_ms)
        self._room = rate.room(self.limit)
        self._until_ms = rate.steady_until_ms
        return throttle_ms

    def wait_ms(self, amount: float, now_ms: int) -> int:
        """The time that :meth:`count` would return; nothing is counted."""
        rate = deepcopy(self._rate)  # to look at a rate moves its samples on
        if self._pending:
            rate.record(self._pending, self._last_ms)
        rate.record(amount, now_ms)
        return rate.throttle_ms(self.limit, now_ms)

    def is_unused(self, now_ms: int) -> bool:
        """True if nothing that was counted lately counts any more."""
        self._settle()
        return self._rate.per_second(now_ms) <= 0

    def is_idle(self, now_ms: int) -> bool:
        """True if the rate is as good as a new one."""
        self._settle()
        return self._rate.is_idle(now_ms)

    def _settle(self) -> None:
        if self._pending:
            self._rate.record(self._pending, self._last_ms)
            self._pending = 0.0
        self._room = _NONE
