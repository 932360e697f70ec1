"""Kafka's variable-length integers in columns: one at each of many positions is read or written at once.

Nearly all of them have one byte or two. Two bytes are a number below 65,536, and tables have the value and the size for each: a column
of integers costs three look-ups, and the longer ones among them a few steps more.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from esp.arrow.errors import BrokenRecordsError

Numbers = NDArray[np.int64]
Octets = NDArray[np.uint8]

SLACK: Final = 16
"""Bytes that must be readable behind the last integer: more than any integer has."""

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
_TABLED_BYTES: Final = 2
_GOES_ON: Final = 0x80
_LOW_BITS: Final = 0x7F


def _make_tables() -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    words = np.arange(1 << 16, dtype=np.int32)
    first, second = words & 0xFF, words >> 8
    is_short = first < _GOES_ON
    raw = np.where(is_short, first, first & _LOW_BITS | second << 7)
    sizes = np.where(is_short, 1, np.where(second < _GOES_ON, _TABLED_BYTES, 0))
    return (raw >> 1 ^ -(raw & 1)).astype(np.int32), sizes.astype(np.uint8)


VALUES, SIZES = _make_tables()
"""By the two bytes at a position: the value, and the number of bytes, 0 if the integer has more than two."""


def words_of(octets: Octets) -> NDArray[np.uint16]:
    """The two bytes at each position, without a copy."""
    return np.ndarray((len(octets) - 1,), "<u2", octets.data, strides=(1,))


def read_varints(
    octets: Octets, words: NDArray[np.uint16], positions: Numbers, most_bytes: int = VARINT_BYTES
) -> tuple[Numbers, Numbers]:
    """Return the integers at ``positions``, and the positions behind them.

    Args:
        octets: the bytes; :data:`SLACK` of them follow the last position.
        words: :func:`words_of` them.
        positions: where integers begin.
        most_bytes: :data:`VARINT_BYTES` for 32 bits, :data:`VARLONG_BYTES` for 64.

    Raises:
        BrokenRecordsError: an integer does not end, or is too large.
        IndexError: a position is not in ``octets``.
    """
    heads = words[positions]
    sizes = SIZES[heads]
    values = VALUES[heads].astype(np.int64)
    ends = positions + sizes
    if not sizes.all():
        longer = np.flatnonzero(sizes == 0)
        values[longer], ends[longer] = _read_long(octets, positions[longer], most_bytes)
    return values, ends


def _read_long(octets: Octets, positions: Numbers, most_bytes: int) -> tuple[Numbers, Numbers]:
    raw = np.zeros(len(positions), np.uint64)
    ends = np.zeros(len(positions), np.int64)
    going = np.arange(len(positions))
    for number in range(most_bytes):
        found = octets[positions[going] + number]
        raw[going] |= (found & np.uint8(_LOW_BITS)).astype(np.uint64) << np.uint64(7 * number)
        is_last = found < _GOES_ON
        if number == VARLONG_BYTES - 1 and np.any(found[is_last] > 1):
            raise BrokenRecordsError("an integer does not fit 64 bits")
        ends[going[is_last]] = positions[going[is_last]] + number + 1
        going = going[~is_last]
        if not len(going):
            break
    else:
        raise BrokenRecordsError(f"an integer goes on after {most_bytes} bytes")
    if most_bytes == VARINT_BYTES and np.any(raw > 0xFFFF_FFFF):
        raise BrokenRecordsError("an integer does not fit 32 bits")
    return (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64), ends


_SIZE_LIMITS: Final = np.array([1 << 7 * size for size in range(1, VARLONG_BYTES)], np.uint64)
"""Unsigned integers below the first have one byte, below the second two, and so on."""


def zigzag(values: Numbers) -> NDArray[np.uint64]:
    """The unsigned integers that are written for signed ones."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def size_of(raw: NDArray[np.uint64]) -> Numbers:
    """The number of bytes of each unsigned integer."""
    sizes = np.ones(len(raw), np.int64)
    if not len(raw):
        return sizes
    largest = raw.max()
    for limit in _SIZE_LIMITS:
        if largest < limit:
            break
        sizes += raw >= limit
    return sizes


def write_varints(octets: Octets, positions: Numbers, raw: NDArray[np.uint64], sizes: Numbers) -> None:
    """Write unsigned integers of ``sizes`` bytes at ``positions``."""
    left = raw
    where = positions
    going = sizes
    number = 0
    while True:
        number += 1
        is_last = going == number
        if is_last.all():
            octets[where] = left
            return
        octets[where] = np.where(is_last, left, left & np.uint64(_LOW_BITS) | np.uint64(_GOES_ON))
        longer = ~is_last
        left, where, going = left[longer] >> np.uint64(7), where[longer] + 1, going[longer]
