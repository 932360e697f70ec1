"""A bucket of tokens: a rate that may be exceeded for a while after a rest, as Kafka's ``TokenBucket`` has it (KIP-599).

The bucket fills with the rate, up to what all windows together would let through. What is done takes tokens and may leave a debt; nothing
more is done while there is one.
"""

from esp.quotas.rate import Windows, throttle_time_ms


class TokenBucket:
    """The tokens of one client, which begins with a full bucket.

    Args:
        windows: bound what may be saved up.
        now_ms: the present time.
    """

    __slots__ = ("_limit", "_spent", "_updated_ms", "_windows")

    def __init__(self, windows: Windows, now_ms: int) -> None:
        self._windows = windows
        self._spent = 0.0
        """Tokens that the full bucket lacks; a bucket knows no rate, which may change."""
        self._limit = 0.0
        self._updated_ms = now_ms

    def take(self, tokens: float, limit: float, now_ms: int) -> None:
        """Take tokens, whether or not there are so many; a negative number gives some back."""
        self._refill(limit, now_ms)
        self._spent = max(0.0, self._spent + tokens)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time after which there is no debt; 0 if there is none."""
        self._refill(limit, now_ms)
        debt = self._spent - limit * self._windows.total_ms / 1000
        return throttle_time_ms(debt, limit, 1000) if debt > 0 else 0

    def is_idle(self, now_ms: int) -> bool:
        """True if the bucket is full, as a new one is."""
        self._refill(self._limit, now_ms)
        return self._spent <= 0

    def _refill(self, limit: float, now_ms: int) -> None:
        self._limit = limit
        self._spent = max(0.0, self._spent - limit * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms
