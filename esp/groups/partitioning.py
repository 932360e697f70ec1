"""The partition of ``__consumer_offsets`` that a group belongs to."""

from functools import lru_cache
from typing import Final

_SHORT: Final = 64
"""Names up to this length are remembered with their hashes: each request of a group is for its partition."""

_MIN_INT: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


def java_hash(text: str) -> int:
    """Java's ``String.hashCode`` of a text, as a signed 32-bit number; it goes by UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _MASK
    return value - (1 << 32) if value >= _MIN_INT else value


_short_hash = lru_cache(maxsize=4096)(java_hash)


def partition_for(group_id: str, partition_count: int) -> int:
    """The group's partition: the absolute value of its hash (0 for the smallest, which has none) modulo the count."""
    value = abs(_short_hash(group_id) if len(group_id) <= _SHORT else java_hash(group_id))
    return 0 if value == _MIN_INT else value % partition_count
