"""The latest offset of each key in the dirty part of a log, in bounded memory (CLEAN-8)."""

import sys
from collections.abc import Mapping
from itertools import islice
from typing import Final

OBJECT_BYTES: Final = 33 + 15 + 32 + 9
"""Memory of a key beside its bytes: the head of the object, the most that the allocator adds, the number of its offset, and the place of
that in a list (:class:`~esp.storage.compaction.survivors.Survivors`)."""

TABLE_BYTES: Final = 100
"""Memory of a key in the table, at most, as the table grows."""


class KeyMap:
    """The keys themselves with their latest offsets: two keys with one hash value are two keys, and neither hides the other's records.

    Kafka's map holds 24 bytes for each key, and takes keys with the same MD5 for one. Here a key takes some 150 bytes and its own, so that
    a round holds fewer keys.

    Args:
        limit_bytes: the memory that it may take.
    """

    __slots__ = ("_key_bytes", "_limit_bytes", "_offsets")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._offsets: dict[bytes, int] = {}
        self._key_bytes = 0

    @property
    def latest(self) -> Mapping[bytes, int]:
        """Twice the latest offset of each key."""
        return self._offsets

    @property
    def size(self) -> int:
        """Bytes of memory that it takes."""
        return sys.getsizeof(self._offsets) + self._key_bytes

    @property
    def utilization(self) -> float:
        """The share of the memory that is in use."""
        return min(1.0, self.size / self._limit_bytes) if self._limit_bytes else 1.0

    def has_room(self, count: int, key_bytes: int) -> bool:
        """True if ``count`` keys of ``key_bytes`` altogether fit in. An empty map takes any batch, so that a round always gets on."""
        if not self._offsets:
            return True
        return self.size + key_bytes + count * (OBJECT_BYTES + TABLE_BYTES) <= self._limit_bytes

    def add(self, found: Mapping[bytes, int]) -> None:
        """Take in the keys of a batch, with twice their offsets, which are later than all before (:func:`esp.records.keyed.index_keys`)."""
        offsets = self._offsets
        before = len(offsets)
        offsets.update(found)  # one dictionary into another: the processor waits for several places in memory at once
        new = len(offsets) - before
        self._key_bytes += new * OBJECT_BYTES + sum(map(len, islice(reversed(offsets), new)))  # new ones stand last
