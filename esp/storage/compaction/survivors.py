"""The records of the dirty part that stay, by their offsets: known from the map of keys before any batch is opened a second time.

Most records of a dirty part are superseded within it, and most of its batches go as a whole: these need not be decompressed, nor walked.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import Final

from esp.records.batch_header import BatchHeader

_BUCKET_BITS: Final = 13
"""4,096 offsets to a bucket, as offsets count twice. A sort keeps the interpreter's lock: none takes longer than part of a millisecond."""


class Survivors:
    """The offsets at which the latest records of all keys of the dirty part stand.

    Args:
        start_offset: the first offset of the dirty part.
    """

    def __init__(self, start_offset: int) -> None:
        self._start_offset = start_offset
        self._buckets: dict[int, list[int]] = {}
        self._sorted_to = -1

    def add(self, doubled: Iterable[int]) -> None:
        """Take in twice the latest offsets of some keys, in any order."""
        buckets = self._buckets
        for offset in doubled:
            number = offset >> _BUCKET_BITS
            try:
                buckets[number].append(offset)
            except KeyError:
                buckets[number] = [offset]

    def find(self, header: BatchHeader) -> list[int] | None:
        """Twice the offsets of the records of a batch that stay, tombstones included; None for a batch before the dirty part.

        Batches are asked about in their order, once all offsets are there, and only ones below the end of the dirty part, with records of
        which none was aborted.
        """
        if header.last_offset < self._start_offset:
            return None
        first, last = 2 * header.base_offset, 2 * header.last_offset
        found: list[int] = []
        for number in range(first >> _BUCKET_BITS, (last >> _BUCKET_BITS) + 1):
            offsets = self._buckets.get(number)
            if offsets is None:
                continue
            if number > self._sorted_to:
                offsets.sort()
                self._sorted_to = number
            found += offsets[bisect_left(offsets, first) : bisect_right(offsets, last)]
        return found
