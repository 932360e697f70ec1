"""Numbers that Spark's shuffle brings to given tasks: ``repartition(n, column)`` sends a row to the task of the column's hash modulo ``n``.

If Spark hashed otherwise one day, rows of several targets would meet in one task, which is slower, and as right as before.
"""

from typing import Final

_SEED: Final = 42
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_WORD: Final = 0xFFFF_FFFF


def find_routes(tasks: int) -> tuple[int, ...]:
    """Return for each task a number whose hash is its own."""
    found: dict[int, int] = {}
    number = 0
    while len(found) < tasks:
        found.setdefault(hash_of(number) % tasks, number)
        number += 1
    return tuple(found[task] for task in range(tasks))


def hash_of(number: int) -> int:
    """Spark's hash of an integer (``Murmur3_x86_32.hashInt``), as a signed number."""
    word = _rotate(number * _C1 & _WORD, 15) * _C2 & _WORD
    value = (_rotate(_SEED ^ word, 13) * 5 + 0xE6546B64) & _WORD
    value ^= 4
    value = (value ^ value >> 16) * 0x85EBCA6B & _WORD
    value = (value ^ value >> 13) * 0xC2B2AE35 & _WORD
    value ^= value >> 16
    return value - (value >> 31 << 32)


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _WORD
