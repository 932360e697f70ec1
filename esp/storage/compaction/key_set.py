"""The keys of the dirty part of a log, in bounded memory (CLEAN-8)."""

import sys
from collections.abc import Mapping, Set
from typing import Final

OBJECT_BYTES: Final = 33 + 15 + 9
"""Memory of a key beside its bytes: the head of the object, the most that the allocator adds, and the place of its offset
(:class:`~esp.storage.compaction.survivors.Survivors`)."""

_ENTRY_BYTES: Final = 16
"""The memory of an entry of the hash table, taken or free."""

_SMALL_TABLE: Final = 50_000
"""Keys of a table that has four times as many entries when it grows, where a larger one has twice as many."""


class KeySet:
    """The keys themselves: two keys with one hash value are two keys, and neither hides the other's records.

    They are learned from the end of the dirty part on backwards: the first record of a key is its latest one, and any other is superseded.
    So nothing needs to be remembered of a key but that it was there. Kafka's map holds 24 bytes for each key, and takes keys with the
    same MD5 for one. Here a key takes some 100 bytes and its own, so that a round holds fewer keys.

    Args:
        limit_bytes: the memory that it may take.
    """

    __slots__ = ("_key_bytes", "_keys", "_limit_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._keys: set[bytes] = set()
        self._key_bytes = 0

    @property
    def keys(self) -> Set[bytes]:
        """The keys that were learned."""
        return self._keys

    @property
    def size(self) -> int:
        """Bytes of memory that it takes."""
        return sys.getsizeof(self._keys) + self._key_bytes

    @property
    def utilization(self) -> float:
        """The share of the memory that is in use."""
        return min(1.0, self.size / self._limit_bytes) if self._limit_bytes else 1.0

    def has_room(self, count: int, key_bytes: int) -> bool:
        """True if ``count`` keys of ``key_bytes`` altogether fit in. An empty set takes any batch, so that a round always gets on."""
        if not self._keys:
            return True
        table_bytes = sys.getsizeof(self._keys)
        after = len(self._keys) + count
        if (
            5 * after * _ENTRY_BYTES >= 3 * table_bytes
        ):  # the table grows, and stays beside the new one until all keys have moved
            table_bytes += (2 if after > _SMALL_TABLE else 4) * max(table_bytes, 2 * count * _ENTRY_BYTES)
        return self._key_bytes + key_bytes + count * OBJECT_BYTES + table_bytes <= self._limit_bytes

    def add(self, found: Mapping[bytes, int]) -> list[int]:
        """Take in the keys of a batch that stands before all others so far.

        Args:
            found: the keys, with twice the offset of the last record of each (:func:`esp.records.keyed.index_keys`).

        Returns:
            Twice the offsets of the records that nothing supersedes, the latest first.
        """
        new = set(found).difference(self._keys)
        if not new:
            return []
        self._keys |= new
        self._key_bytes += len(new) * OBJECT_BYTES + sum(map(len, new))
        return sorted(map(found.__getitem__, new), reverse=True)
