"""The sparse offset index of one segment: the positions of some of its batches in the file (Kafka's ``OffsetIndex``).

An entry holds the *last* offset of the batch that starts at its position. Both columns rise strictly. Offsets are kept relative to the
segment's base, as in the file.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from operator import lt
from typing import Final

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError

ENTRY_SIZE: Final = 8


class OffsetIndex:
    """The entries of one segment.

    Args:
        base_offset: the segment's.
    """

    __slots__ = ("_base_offset", "_offsets", "_positions", "saved")

    entry_size: Final = ENTRY_SIZE

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")
        self.saved = 0
        """The number of entries in the file."""

    @classmethod
    def decode(cls, base_offset: int, data: Buffer) -> "OffsetIndex":
        """Read the entries of a file, up to the first that does not rise; zeros at the end are padding.

        Raises:
            CorruptionError: the size is no multiple of an entry's.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptionError(f"{len(data)} bytes are no whole number of offset index entries")
        values = array("i")
        values.frombytes(data)
        if sys.byteorder == "little":
            values.byteswap()
        index = cls(base_offset)
        index._offsets = values[0::2]
        index._positions = values[1::2]
        if index._positions and (index._positions[0] <= 0 or index._offsets[0] < 0):
            index.truncate(0)
        for column in (index._offsets, index._positions):
            if not all(map(lt, column, column[1:])):
                index.truncate(1 + next(place for place, (a, b) in enumerate(pairwise(column)) if a >= b))
        index.saved = len(index)
        return index

    def encode(self, start: int) -> bytes:
        """The entries from number ``start`` on, as they stand in the file."""
        offsets = self._offsets[start:]
        values = array("i", bytes(ENTRY_SIZE * len(offsets)))
        values[0::2] = offsets
        values[1::2] = self._positions[start:]
        if sys.byteorder == "little":
            values.byteswap()
        return values.tobytes()

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def positions(self) -> Sequence[int]:
        """Positions of the indexed batches, rising."""
        return self._positions

    def append(self, last_offset: int, position: int) -> int:
        """Add the batch with this last offset, which starts at ``position``; returns how many entries there are then."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)
        return len(self._positions)

    def entry(self, number: int) -> tuple[int, int]:
        """The last offset and position of an entry; negative numbers count from the end."""
        return self._base_offset + self._offsets[number], self._positions[number]

    def floor(self, offset: int) -> int:
        """Position of the last indexed batch that ends at or before ``offset``; 0, where the segment starts, if there is none."""
        place = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[place - 1] if place else 0

    def floor_position(self, position: int) -> int:
        """Position of the last indexed batch that starts at or before ``position``; 0 if there is none."""
        place = bisect_right(self._positions, position)
        return self._positions[place - 1] if place else 0

    def entry_at(self, position: int) -> int:
        """The last offset of the batch that an entry says to start at ``position``; the entry is there."""
        return self._base_offset + self._offsets[bisect_right(self._positions, position) - 1]

    def count_within(self, end_offset: int, end_position: int) -> int:
        """Return the number of entries, from the first on, that end below ``end_offset`` and start below ``end_position``."""
        return min(
            bisect_right(self._offsets, end_offset - 1 - self._base_offset),
            bisect_right(self._positions, end_position - 1),
        )

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        del self._offsets[count:]
        del self._positions[count:]
        self.saved = min(self.saved, count)
