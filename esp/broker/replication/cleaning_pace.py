"""The rate of compaction, which all rounds of a node share (``log.cleaner.io.max.bytes.per.second``)."""


class CleaningPace:
    """Bytes that were read and written too early are a debt, which is paid by waiting. The rate may be another one at each call."""

    __slots__ = ("_owed_bytes", "_paid_us")

    def __init__(self) -> None:
        self._owed_bytes = 0.0
        self._paid_us = 0
        """Up to then the debt is paid, in microseconds of the monotonic clock."""

    def note_moved(self, count: int, *, begun_us: int, most: float) -> None:
        """``count`` bytes were moved by a step that began at ``begun_us``: the time that it took counts as waiting."""
        self._pay(begun_us, most)
        self._owed_bytes += count

    def wait_us(self, *, now_us: int, most: float) -> int:
        """The time until there is no debt, if the rate stays at ``most`` bytes a second; 0 if there is none."""
        self._pay(now_us, most)
        return int(self._owed_bytes * 1_000_000 / max(most, 1.0))

    def _pay(self, now_us: int, most: float) -> None:
        if now_us <= self._paid_us:  # a step of another round that began earlier
            return
        self._owed_bytes = max(0.0, self._owed_bytes - max(most, 1.0) * (now_us - self._paid_us) / 1_000_000)
        self._paid_us = now_us
