"""Records that are a value and nothing else, encoded many at a time: the lines of a text, for example.

Such a record has no key, no headers and the timestamp of its batch. The bytes around its value then depend on two numbers only, the length
of the value and the offset delta, and come from tables. A record costs a quarter of a microsecond instead of four
(:func:`esp.records.builder.encode_records`); the bytes are the same.
"""

from collections.abc import Sequence
from typing import Final

from esp.records.varint import append_varint

_FRAMING_SIZE: Final = 4
"""Bytes of a record's attributes, timestamp delta, absent key and number of headers."""

_DELTA_BYTES_MAX: Final = 5
"""Bytes of the longest offset delta."""


def encode_values(values: Sequence[bytes]) -> bytes:
    """Return the records of a batch, one for each value, with offset deltas from 0 on."""
    count = len(values)
    lengths = list(map(len, values))
    # Each record is four pieces: its beginning, its offset delta, the key and the length of the value, the value. Its last byte, the number
    # of headers, stands at the front of the next record's first piece. The pieces of one kind are put in their places all at once.
    pieces: list[bytes] = [b""] * (4 * count)
    beginnings: list[bytes] = []
    for size in range(1, _DELTA_BYTES_MAX + 1):
        first, end = _delta_range(size)
        if first >= count:
            break
        beginnings += map(_BEGINNINGS[size].__getitem__, lengths[first:end])
    pieces[0::4] = beginnings
    pieces[1::4] = _offset_deltas(count)
    pieces[2::4] = map(_VALUE_LENGTHS.__getitem__, lengths)
    pieces[3::4] = values
    pieces.append(_NO_HEADERS)
    return b"".join(pieces)[len(_NO_HEADERS) :]


_NO_HEADERS: Final = b"\0"
_NO_KEY: Final = b"\1"
_ATTRIBUTES_AND_TIMESTAMP: Final = b"\0\0"


def _varint(value: int) -> bytes:
    output = bytearray()
    append_varint(output, value)
    return bytes(output)


def _delta_range(size: int) -> tuple[int, int]:
    """The offset deltas whose varints have ``size`` bytes, as a half-open range."""
    return (1 << (7 * size - 8) if size > 1 else 0), 1 << (7 * size - 1)


class _Beginnings(dict[int, bytes]):
    """Beginnings of records by the length of their values; an entry is made when it is first asked for.

    Args:
        delta_size: bytes of the records' offset deltas.
    """

    def __init__(self, delta_size: int) -> None:
        super().__init__()
        self._delta_size = delta_size

    def __missing__(self, length: int) -> bytes:
        size = _FRAMING_SIZE + self._delta_size + len(_varint(length)) + length
        beginning = self[length] = _NO_HEADERS + _varint(size) + _ATTRIBUTES_AND_TIMESTAMP
        return beginning


class _ValueLengths(dict[int, bytes]):
    """The absent key and the length of a value, by that length."""

    def __missing__(self, length: int) -> bytes:
        encoded = self[length] = _NO_KEY + _varint(length)
        return encoded


_BEGINNINGS: Final = [_Beginnings(size) for size in range(_DELTA_BYTES_MAX + 1)]
_VALUE_LENGTHS: Final = _ValueLengths()
_deltas: list[bytes] = []


def _offset_deltas(count: int) -> list[bytes]:
    """The varints of 0 to ``count - 1``."""
    if len(_deltas) < count:
        _deltas.extend(map(_varint, range(len(_deltas), count)))
    return _deltas[:count]
