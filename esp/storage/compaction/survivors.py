"""The records of the dirty part that stay, by their offsets: known from the keys before any batch is opened a second time.

Most records of a dirty part are superseded within it, and most of its batches go as a whole: these need not be decompressed, nor walked.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from esp.records.batch_header import BatchHeader


class Survivors:
    """The offsets at which the latest records of all keys of the dirty part stand.

    Args:
        start_offset: the first offset of the dirty part.
    """

    def __init__(self, start_offset: int) -> None:
        self._start_offset = start_offset
        self._doubled = array("q")
        self._next = 0
        """The place of the first one that no batch has been told."""

    def add(self, doubled: Iterable[int]) -> None:
        """Take in twice the offsets of a batch, the latest first; each call brings earlier ones than the calls before it."""
        self._doubled.extend(doubled)

    def turn(self) -> None:
        """End the collection of offsets: batches are asked about from now on."""
        self._doubled.reverse()

    def find(self, header: BatchHeader) -> list[int] | None:
        """Twice the offsets of the records of a batch that stay, tombstones included; None for a batch before the dirty part.

        Batches are asked about in their order, once all offsets are there (:meth:`turn`), and only ones below the end of the dirty part,
        with records of which none was aborted.
        """
        if header.last_offset < self._start_offset:
            return None
        first = bisect_left(self._doubled, 2 * header.base_offset, self._next)
        most = min(len(self._doubled), first + header.last_offset_delta + 1)
        self._next = bisect_right(self._doubled, 2 * header.last_offset, first, most)
        return self._doubled[first : self._next].tolist()
