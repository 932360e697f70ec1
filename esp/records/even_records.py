"""Keys of records of one size, read in columns: counters, sensor values and identifiers often come so, with keys of one length.

Where records are alike, the same byte of each stands in the same place, a record's size further on: a slice with that step is a column,
which is compared as a whole. The keys cost a quarter of what it takes to walk the records one after another.
"""

from struct import iter_unpack
from typing import Final

_ONE_BYTE_NUMBERS: Final = 64
"""Offset deltas below this take one byte."""

_NUMBERS_MAX: Final = 8192
"""Offset deltas below this take two bytes."""

_ONE_BYTE_DELTAS: Final = bytes(range(0, 2 * _ONE_BYTE_NUMBERS, 2))
_LOW_BYTES: Final = bytes(2 * number & 0x7F | 0x80 for number in range(_ONE_BYTE_NUMBERS, _NUMBERS_MAX))
_HIGH_BYTES: Final = bytes(2 * number >> 7 for number in range(_ONE_BYTE_NUMBERS, _NUMBERS_MAX))
"""Offset deltas as they stand in the bytes; of those with two bytes the first and the second."""


def read_even_keys(data: bytes, position: int, end: int, count: int) -> list[bytes] | None:
    """Return the keys of all records of a batch, if these have one size and keys of one length, and offset deltas from 0 on without gaps.

    Args:
        data: holds the records, decompressed.
        position: the position of the first record.
        end: the position behind the last record.
        count: the number of records.

    Returns:
        None if they are not like that, or not sound.
    """
    if count > _NUMBERS_MAX or end > len(data):
        return None
    first = _read_run(data, position, end, 0, min(count, _ONE_BYTE_NUMBERS))
    if first is None:
        return None
    keys, position = first
    if count > _ONE_BYTE_NUMBERS:
        second = _read_run(data, position, end, _ONE_BYTE_NUMBERS, count - _ONE_BYTE_NUMBERS)
        if second is None:
            return None
        more, position = second
        keys += more
    return keys if position == end else None


def _read_run(data: bytes, start: int, end: int, number: int, count: int) -> tuple[list[bytes], int] | None:
    """The keys of ``count`` records whose offset deltas go from ``number`` on in as many bytes each, and the position behind them."""
    try:
        length, times = data[start], start + 2  # behind the length and the attributes
        is_long = length > 0x7F
        if is_long:
            more = data[start + 1]
            if more > 0x7F:
                return None
            length, times = length & 0x7F | more << 7, times + 1
        size = times - 1 + (length >> 1) - start
        deltas = times + 1  # where timestamps take one byte
        lengths = deltas + (2 if number else 1)
        key_length = data[lengths]
    except IndexError:
        return None
    stop = start + count * size
    before = lengths + 1 - start
    rest = size - before - (key_length >> 1)
    if stop > end or rest <= 0 or (length | key_length) & 1 or key_length > 0x7F:
        return None
    place = number - _ONE_BYTE_NUMBERS
    is_even = (
        data[start:stop:size] == data[start : start + 1] * count
        and (not is_long or data[start + 1 : stop : size] == data[start + 1 : start + 2] * count)
        and data[times:stop:size].isascii()
        and data[lengths:stop:size] == data[lengths : lengths + 1] * count
        and (
            data[deltas:stop:size] == _LOW_BYTES[place : place + count]
            and data[deltas + 1 : stop : size] == _HIGH_BYTES[place : place + count]
            if number
            else data[deltas:stop:size] == _ONE_BYTE_DELTAS[:count]
        )
    )
    if not is_even:
        return None
    layout = f"{before}x{key_length >> 1}s{rest}x"
    return [key for (key,) in iter_unpack(layout, memoryview(data)[start:stop])], stop
