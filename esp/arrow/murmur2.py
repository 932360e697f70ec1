"""Kafka's hash of keys (``Utils.murmur2``) for a whole column: numpy takes one word of all keys at a step."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.arrow.varints import Octets

Hashes = NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_SHIFT: Final = np.uint32(24)
_WORD_BYTES: Final = 4


def murmur2(column: pa.Array) -> Hashes:
    """Return the hash of each value of a binary column; that of null is that of no bytes.

    The time grows with the longest value: it is meant for keys.
    """
    _, offsets, data = column.buffers()
    borders = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    octets = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    starts, sizes = borders[:-1], np.diff(borders)
    if column.null_count:
        sizes = np.where(column.is_valid().to_numpy(zero_copy_only=False), sizes, 0)
    hashes: Hashes = np.uint32(_SEED) ^ sizes.astype(np.uint32)
    words = sizes // _WORD_BYTES
    rows = np.flatnonzero(words)
    number = 0
    while len(rows):
        word = _read_words(octets, starts[rows] + number * _WORD_BYTES) * _MULTIPLIER
        word = (word ^ word >> _SHIFT) * _MULTIPLIER
        hashes[rows] = hashes[rows] * _MULTIPLIER ^ word
        number += 1
        rows = rows[words[rows] > number]
    _add_tails(hashes, octets, starts + words * _WORD_BYTES, sizes % _WORD_BYTES)
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)


def _read_words(octets: Octets, positions: NDArray[np.int64]) -> Hashes:
    """The four bytes at each position, the lowest first."""
    word = np.zeros(len(positions), np.uint32)
    for place in range(_WORD_BYTES):
        word |= octets[positions + place].astype(np.uint32) << np.uint32(8 * place)
    return word


def _add_tails(hashes: Hashes, octets: Octets, positions: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
    """Take the bytes behind the last whole word into account."""
    for place in range(_WORD_BYTES - 1):
        rows = np.flatnonzero(sizes > place)
        hashes[rows] ^= octets[positions[rows] + place].astype(np.uint32) << np.uint32(8 * place)
    rows = np.flatnonzero(sizes)
    hashes[rows] *= _MULTIPLIER
