"""The partition of a record: by its key, or for records without a key one partition for as long as a batch fills (KIP-480)."""

from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_SHIFT: Final = 24
_WORD: Final = 0xFFFF_FFFF

_KEYS_REMEMBERED: Final = 65_536


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Return the index of a key's partition, as Kafka's clients choose it."""
    return _hash(key) % partition_count


@lru_cache(_KEYS_REMEMBERED)
def _hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFF_FFFF


def murmur2(data: bytes) -> int:
    """Return the 32-bit hash of ``data`` that Kafka's partitioners use (``Utils.murmur2``), as an unsigned number."""
    whole = len(data) & ~3
    value = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _WORD
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _WORD
        value = value * _MULTIPLIER & _WORD ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _WORD
    value = (value ^ value >> 13) * _MULTIPLIER & _WORD
    return value ^ value >> 15


class StickyPartition:
    """The partition of records without a key: another one after each batch.

    Args:
        below: a random integer that is less than its argument, and not negative.
    """

    def __init__(self, below: Callable[[int], int]) -> None:
        self._below = below
        self._chosen: int | None = None

    def get(self, partitions: Sequence[int], available: Collection[int]) -> int:
        """Return the present partition; one that has no leader gives way to one that has, if there is any."""
        if self._chosen is None or (available and self._chosen not in available):
            self._choose(sorted(available) or partitions)
        assert self._chosen is not None
        return self._chosen

    def move(self, partitions: Sequence[int], available: Collection[int]) -> None:
        """Choose another partition, if there is one."""
        others = [each for each in sorted(available) or partitions if each != self._chosen]
        if others:
            self._choose(others)

    def _choose(self, partitions: Sequence[int]) -> None:
        self._chosen = partitions[self._below(len(partitions))]
