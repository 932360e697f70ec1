"""The beginning and the end of a read, which are an offset or a time for all partitions."""

from typing import NamedTuple


class Bound(NamedTuple):
    """An offset, or a time: the first record that is as late.

    Attributes:
        offset: of all partitions; None: it is a time.
        time_ms: milliseconds since 1970.
    """

    offset: int | None = None
    time_ms: int = 0


class Bounds(NamedTuple):
    """The beginning, and the end, which is not read itself; None: all that is there."""

    first: Bound | None = None
    end: Bound | None = None

    @property
    def is_backwards(self) -> bool:
        """True if both are offsets, or both are times, and the end is before the beginning."""
        first, end = self.first, self.end
        if first is None or end is None or (first.offset is None) != (end.offset is None):
            return False
        if first.offset is None or end.offset is None:
            return end.time_ms < first.time_ms
        return end.offset < first.offset
