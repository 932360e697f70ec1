"""A rate over a window of samples, as Kafka's ``Rate`` of sums measures it, so that throttle times are Kafka's to the millisecond (KIP-13).

A sample collects what is recorded within one window's time of its start. A sample whose last event is older than all windows together
counts no more. The rate is taken over the time since the oldest sample began, yet over one window less than there are at least: what a
client sends in its first moments is not taken for its rate.
"""

from copy import copy
from typing import Any, Final, NamedTuple, Self

LONGEST_MS: Final = 2**31 - 1
"""The longest throttle time, 24 days: answers tell no longer one, and a quota may be as small as a number can be."""


def throttle_time_ms(excess: float, limit: float, window_ms: int) -> int:
    """The time in which an excess is worked off, by Kafka's formula, :data:`LONGEST_MS` at most.

    Args:
        excess: over the limit.
        limit: in the time of a window.
        window_ms: that time.
    """
    return int(min(excess / limit * window_ms + 0.5, LONGEST_MS)) if limit > 0 else LONGEST_MS


class Windows(NamedTuple):
    """The number of samples and the time of each: ``quota.window.num``, ``quota.window.size.seconds``."""

    number: int
    size_ms: int

    @property
    def total_ms(self) -> int:
        """The time after which something that was recorded counts no more."""
        return self.number * self.size_ms


class _Sample:
    __slots__ = ("last_event_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_event_ms = now_ms
        self.value = 0.0


class Rate:
    """Amounts that were recorded lately. Times never go back.

    Args:
        windows: the samples that are kept.
        now_ms: the present time.
    """

    __slots__ = ("_current", "_oldest_start_ms", "_samples", "_total", "_windows", "steady_until_ms")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._samples = [_Sample(now_ms)]
        self._current = 0
        self._total = 0.0
        self._oldest_start_ms = now_ms
        self.steady_until_ms = now_ms
        """Until then the present sample goes on and no other one expires."""

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        copied = copy(self)
        copied._samples = [copy(sample) for sample in self._samples]  # noqa: SLF001 - it is of this class
        return copied

    def record(self, amount: float, now_ms: int) -> None:
        """Count an amount; a negative one takes back what was recorded in error."""
        sample = self._samples[self._current]
        if now_ms >= self.steady_until_ms:
            if now_ms - sample.start_ms >= self._windows.size_ms:
                sample = self._next_sample(now_ms)
            sample.value += amount
            sample.last_event_ms = now_ms
            self._refresh(now_ms)
            return
        sample.value += amount
        sample.last_event_ms = now_ms
        self._total += amount

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time after which the rate is down to ``limit`` a second if nothing more is recorded; 0 if it is not above.

        That is how far the rate is above the limit, as a part of the limit, times the window over which it was taken.
        """
        if now_ms >= self.steady_until_ms:
            self._refresh(now_ms)
        # The window of this moment is at least as long as the shortest one: most calls end here.
        windows = self._windows
        if self._total <= limit * (windows.number - 1) * windows.size_ms / 1000:
            return 0
        window_ms = self._window_ms(now_ms)
        rate = self._total * 1000 / window_ms
        if rate <= limit:
            return 0
        return throttle_time_ms(rate - limit, limit, window_ms)

    def room(self, limit: float) -> float:
        """The amount that may be recorded until :attr:`steady_until_ms` without the rate exceeding ``limit``; negative if there is none."""
        windows = self._windows
        return limit * (windows.number - 1) * windows.size_ms / 1000 - self._total

    def per_second(self, now_ms: int) -> float:
        """The rate as of now."""
        if now_ms >= self.steady_until_ms:
            self._refresh(now_ms)
        return self._total * 1000 / self._window_ms(now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """True if nothing that was recorded counts any more: the rate is as good as a new one."""
        return now_ms - self._samples[self._current].last_event_ms >= self._windows.total_ms

    def _window_ms(self, now_ms: int) -> int:
        windows = self._windows
        elapsed_ms = now_ms - self._oldest_start_ms
        missing = windows.number - 1 - elapsed_ms // windows.size_ms
        if missing > 0:
            elapsed_ms += missing * windows.size_ms
        return max(elapsed_ms, 1)

    def _next_sample(self, now_ms: int) -> _Sample:
        # One more than the windows: the oldest may overlap the time that counts.
        self._current = (self._current + 1) % (self._windows.number + 1)
        if self._current == len(self._samples):
            sample = _Sample(now_ms)
            self._samples.append(sample)
            return sample
        sample = self._samples[self._current]
        sample.reset(now_ms)
        return sample

    def _refresh(self, now_ms: int) -> None:
        """Forget samples that count no more."""
        expire_ms = self._windows.total_ms
        total = 0.0
        oldest_ms = now_ms
        expires_ms = now_ms + expire_ms
        for sample in self._samples:
            if now_ms - sample.last_event_ms >= expire_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
            expires_ms = min(expires_ms, sample.last_event_ms + expire_ms)
        self._total = total
        self._oldest_start_ms = oldest_ms
        self.steady_until_ms = min(expires_ms, self._samples[self._current].start_ms + self._windows.size_ms)
