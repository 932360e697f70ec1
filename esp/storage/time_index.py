"""The sparse time index of one segment, in the format of Kafka's ``TimeIndex``.

An entry (timestamp, offset) says that no record up to that offset has a larger timestamp; the offset is the last of the batch that holds
it. Timestamps and offsets rise strictly. Offsets are kept relative to the segment's base, as in the file.
"""

import struct
from array import array
from bisect import bisect_left, bisect_right
from typing import Final

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError

ENTRY_SIZE: Final = 12
_ENTRY: Final = struct.Struct(">qi")


class TimeIndex:
    """The entries of one segment.

    Args:
        base_offset: the segment's.
    """

    __slots__ = ("_base_offset", "_offsets", "_timestamps", "saved")

    entry_size: Final = ENTRY_SIZE

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")
        self.saved = 0
        """The number of entries in the file."""

    @classmethod
    def decode(cls, base_offset: int, data: Buffer) -> "TimeIndex":
        """Read the entries of a file, up to the first that does not rise; zeros at the end are padding.

        Raises:
            CorruptionError: the size is no multiple of an entry's.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptionError(f"{len(data)} bytes are no whole number of time index entries")
        index = cls(base_offset)
        last_timestamp = last_offset = -1
        for timestamp, offset in _ENTRY.iter_unpack(data):
            if timestamp <= last_timestamp or offset <= last_offset:
                break
            index._timestamps.append(timestamp)
            index._offsets.append(offset)
            last_timestamp = timestamp
            last_offset = offset
        index.saved = len(index)
        return index

    def encode(self, start: int) -> bytes:
        """The entries from number ``start`` on, as they stand in the file."""
        return b"".join(map(_ENTRY.pack, self._timestamps[start:], self._offsets[start:]))

    def __len__(self) -> int:
        return len(self._timestamps)

    def maybe_append(self, timestamp: int, offset: int) -> int:
        """Add the largest timestamp so far and the last offset of its batch, unless the index says so already.

        Returns how many entries there are then.
        """
        timestamps = self._timestamps
        if timestamp > (timestamps[-1] if timestamps else -1):
            timestamps.append(timestamp)
            self._offsets.append(offset - self._base_offset)
        return len(timestamps)

    def last(self) -> tuple[int, int]:
        """The last entry's timestamp and offset; (-1, base offset) if there is none."""
        if not self._timestamps:
            return -1, self._base_offset
        return self._timestamps[-1], self._base_offset + self._offsets[-1]

    def floor_entry(self, timestamp: int) -> tuple[int, int] | None:
        """The last entry of an older timestamp, with its offset: all records up to it are older. None if there is none."""
        place = bisect_left(self._timestamps, timestamp)
        return (self._timestamps[place - 1], self._base_offset + self._offsets[place - 1]) if place else None

    def count_within(self, end_offset: int) -> int:
        """Return the number of entries, from the first on, that name an offset below ``end_offset``."""
        return bisect_right(self._offsets, end_offset - 1 - self._base_offset)

    def truncate(self, count: int) -> None:
        """Keep the first ``count`` entries."""
        del self._timestamps[count:]
        del self._offsets[count:]
        self.saved = min(self.saved, count)


def decode_entry(base_offset: int, data: Buffer) -> tuple[int, int]:
    """The timestamp and offset of one entry's bytes."""
    timestamp, offset = _ENTRY.unpack(data)
    return timestamp, base_offset + offset
