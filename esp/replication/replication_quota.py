"""The quota for copying replicas that are being built: bytes per second, as a pure function of time (THROTTLE-1 to THROTTLE-3; KIP-73).

A meter in the manner of a leaky bucket (the generic cell rate algorithm, ITU-T I.371), not Kafka's rate over eleven samples of a second:
that one lets a move that begins, or was idle, send the whole window's bytes at once, eleven times the rate, which producers feel. Here
every fetch is paid for by the time that it takes at the rate, and the next one may go when that is over.

For takes of known size this holds: in any stretch of time that is not longer than the quota window, the bytes taken are at most the rate
times that time and the burst, and one fetch. A single fetch holds up the next ones for no more than a window, however large it is: so with
a rate above 0 at least one batch moves per window (THROTTLE-3). A rate of 0 lets nothing pass.
"""

from typing import Final

_S: Final = 1_000_000


class ReplicationQuota:
    """The meter of one node for one direction. Times are monotonic microseconds.

    Args:
        window_us: ``replication.quota.window.num`` times ``replication.quota.window.size.seconds``.
        burst_us: unused allowance of so much time is kept, so that timers that are late cost no throughput.
    """

    __slots__ = ("_burst_us", "_paid_up_us", "_rate", "_window_us")

    def __init__(self, window_us: int, burst_us: int) -> None:
        self._window_us = window_us
        self._burst_us = burst_us
        self._rate: int | None = None
        self._paid_up_us = 0
        """The time at which all bytes taken so far are paid for."""

    @property
    def rate(self) -> int | None:
        """Bytes per second; None: no limit."""
        return self._rate

    def set_rate(self, now_us: int, rate: int | None) -> None:
        """Go by another rate from now on, also for bytes that are not paid for yet."""
        if rate == self._rate:
            return
        owed_us = max(0, self._paid_up_us - now_us)
        if self._rate and rate:
            owed_us = min(self._window_us, owed_us * self._rate // rate)
        elif self._rate is None or rate is None:
            owed_us = 0
        self._rate = rate
        self._paid_up_us = now_us + owed_us

    def is_open(self, now_us: int) -> bool:
        """True if something may be taken now."""
        return self._rate is None or (self._rate > 0 and self._paid_up_us <= now_us)

    @property
    def opens_at_us(self) -> int | None:
        """The time from which bytes may be taken, unless more are taken before; None if the rate is 0."""
        return None if self._rate == 0 else self._paid_up_us

    def share(self, duration_us: int) -> int:
        """The bytes of a stretch of time, at least 1; asked only while there is a rate."""
        assert self._rate is not None
        return max(1, self._rate * duration_us // _S)

    def take(self, now_us: int, size: int) -> None:
        """Count ``size`` bytes; the size may be an estimate, see :meth:`correct`. The quota is open."""
        assert self.is_open(now_us)
        self._pay(now_us, max(self._paid_up_us, now_us - self._burst_us) + self._cost_us(size))

    def correct(self, now_us: int, taken: int, used: int) -> None:
        """The ``taken`` bytes turned out to be ``used``, fewer or more."""
        self._pay(now_us, self._paid_up_us + self._cost_us(used) - self._cost_us(taken))

    def _pay(self, now_us: int, until_us: int) -> None:
        self._paid_up_us = min(until_us, now_us + self._window_us)

    def _cost_us(self, size: int) -> int:
        if self._rate is None:
            return 0
        most_us = self._window_us + self._burst_us
        return most_us if self._rate == 0 else min(most_us, -(-size * _S // self._rate))
