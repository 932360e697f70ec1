"""Batches whose records are alike, in columns: counters, sensor values and identifiers often have one size, and keys of one length.

Where records are alike, the same byte of each stands in the same place, a record's size further on: a slice with that step is a column,
which is compared as a whole. The keys cost a fifth of what it takes to walk the records one after another, and a record is found by its
number.
"""

from struct import iter_unpack, unpack_from
from typing import Final, NamedTuple

_ONE_BYTE_NUMBERS: Final = 64
"""Offset deltas below this take one byte."""

_NUMBERS_MAX: Final = 8192
"""Offset deltas below this take two bytes."""

_ONE_BYTE_DELTAS: Final = bytes(range(0, 2 * _ONE_BYTE_NUMBERS, 2))
_LOW_BYTES: Final = bytes(2 * number & 0x7F | 0x80 for number in range(_ONE_BYTE_NUMBERS, _NUMBERS_MAX))
_HIGH_BYTES: Final = bytes(2 * number >> 7 for number in range(_ONE_BYTE_NUMBERS, _NUMBERS_MAX))
"""Offset deltas as they stand in the bytes; of those with two bytes the first and the second."""

_KEYS_AT_ONCE: Final = 64
"""Keys that one format of :mod:`struct` takes out of the bytes; the module keeps such formats."""


class EvenRun(NamedTuple):
    """Neighbouring records of one size, with keys of one length and timestamp deltas of one byte.

    Sizes in bytes. Places are positions in a record, from its first byte on.
    """

    start: int
    """The position of the first record."""
    number: int
    """The number of the first record in its batch."""
    records: int
    size: int
    """The size of each record, its length included."""
    time_place: int
    key_place: int
    key_size: int

    @property
    def value_place(self) -> int:
        """The place of the value's length."""
        return self.key_place + self.key_size


def find_even_runs(data: bytes, position: int, end: int, count: int) -> list[EvenRun] | None:
    """Return the runs of which a batch consists, one or two, if all of its offset deltas are there, from 0 on.

    Two, where there are so many records that their offset deltas take one byte and two.

    Args:
        data: holds the records, decompressed.
        position: the position of the first record.
        end: the position behind the last record.
        count: the number of records.

    Returns:
        None if the records are not like that, or not sound.
    """
    if count > _NUMBERS_MAX or end > len(data):
        return None
    runs: list[EvenRun] = []
    for number, run_count in ((0, min(count, _ONE_BYTE_NUMBERS)), (_ONE_BYTE_NUMBERS, count - _ONE_BYTE_NUMBERS)):
        if run_count > 0:
            run = _find_run(data, position, end, number, run_count)
            if run is None:
                return None
            runs.append(run)
            position = run.start + run.records * run.size
    return runs if position == end else None


def read_even_keys(data: bytes, runs: list[EvenRun]) -> list[bytes]:
    """Return the keys of all records of a batch that consists of ``runs`` (:func:`find_even_runs`)."""
    keys: list[bytes] = []
    for run in runs:
        layout = f"{run.key_place}x{run.key_size}s{run.size - run.value_place}x"
        rest = run.records % _KEYS_AT_ONCE
        stop = run.start + (run.records - rest) * run.size
        if stop > run.start:
            for some in iter_unpack(layout * _KEYS_AT_ONCE, memoryview(data)[run.start : stop]):
                keys += some
        keys += unpack_from(layout * rest, data, stop)
    return keys


def _find_run(data: bytes, start: int, end: int, number: int, count: int) -> EvenRun | None:
    """The run of ``count`` records, one at least, whose offset deltas go from ``number`` on in as many bytes each."""
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
    return EvenRun(start, number, count, size, times - start, before, key_length >> 1) if is_even else None
