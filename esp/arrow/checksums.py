"""CRC-32C of many pieces. The package ``crc32c`` computes it with the processor's own instruction; where it is not installed numpy does.

numpy computes the checksums of all pieces side by side, and cuts each piece in lanes of a fixed size. The register of a lane is found two
bytes at a step; a register that begins with zero is not changed by zero bytes, so that the first lane of a piece is filled up in front. The
registers of a piece's lanes are then joined in pairs, each moved by the bytes behind it, and what the first register of a piece adds is
computed from the piece's size alone.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from esp.model.buffers import Buffer

_native: Callable[[Buffer], int] | None
try:
    from crc32c import crc32c as _native
except ImportError:  # an executor that has numpy and pyarrow only
    _native = None

Checksums = NDArray[np.uint32]

_POLYNOMIAL: Final = 0x82F63B78
_FIRST: Final = 0xFFFF_FFFF
"""The register before the first byte, and what the last one is combined with."""
_LANE_BYTES: Final = 256
_GROUP_BYTES: Final = 4 * 1024 * 1024
"""The bytes of pieces that are computed together, which bounds memory."""


def checksums_of(pieces: Sequence[Buffer]) -> Checksums:
    """Return the CRC-32C of each piece."""
    if _native is not None:
        return np.fromiter((_native(piece) for piece in pieces), np.uint32, len(pieces))
    return compute(pieces)


def compute(pieces: Sequence[Buffer]) -> Checksums:
    """Return the CRC-32C of each piece, by numpy."""
    found: list[Checksums] = []
    first = 0
    while first < len(pieces):
        stop, size = first, 0
        while stop < len(pieces) and (stop == first or size + len(pieces[stop]) <= _GROUP_BYTES):
            size += len(pieces[stop])
            stop += 1
        found.append(_compute_group([np.frombuffer(piece, np.uint8) for piece in pieces[first:stop]]))
        first = stop
    return np.concatenate(found) if found else np.zeros(0, np.uint32)


def _after_zeros(registers: Checksums, bits: int) -> Checksums:
    """The registers after so many zero bits."""
    for _ in range(bits):
        registers = (registers >> np.uint32(1)) ^ np.where(registers & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return registers


@cache
def _word_table() -> Checksums:
    """By two bytes: the register after them, of one that held them."""
    return _after_zeros(np.arange(1 << 16, dtype=np.uint32), 16)


@cache
def _moving(size: int) -> Checksums:
    """The linear map of a register to the one after ``size`` zero bytes, a power of two: a column for each bit."""
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    return _after_zeros(bits, 8) if size == 1 else _move(_move(bits, size // 2), size // 2)


def _move(registers: Checksums, size: int) -> Checksums:
    """The registers after ``size`` zero bytes."""
    moved = np.zeros(registers.shape, np.uint32)
    for bit, column in enumerate(_moving(size)):
        moved ^= (registers >> np.uint32(bit) & np.uint32(1)) * column
    return moved


def _compute_group(pieces: Sequence[NDArray[np.uint8]]) -> Checksums:
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    lanes = np.maximum(-(-sizes // _LANE_BYTES), 1)
    ends = np.cumsum(lanes)
    memory = np.zeros((int(ends[-1]), _LANE_BYTES), np.uint8)
    for piece, end in zip(pieces, ends.tolist(), strict=True):
        memory.reshape(-1)[end * _LANE_BYTES - len(piece) : end * _LANE_BYTES] = piece
    registers = np.zeros(len(memory), np.uint32)
    table = _word_table()
    for column in np.ascontiguousarray(memory.view("<u2").T):
        registers = table[(registers ^ column) & 0xFFFF] ^ registers >> np.uint32(16)
    return _join(registers, lanes, ends) ^ _first_moved(sizes) ^ np.uint32(_FIRST)


def _join(registers: Checksums, lanes: NDArray[np.int64], ends: NDArray[np.int64]) -> Checksums:
    """The register of each piece, from those of its lanes; pieces of about the same size are joined together."""
    joined = np.zeros(len(lanes), np.uint32)
    widths = 1 << np.ceil(np.log2(lanes)).astype(np.int64)
    for width in np.unique(widths):
        chosen = np.flatnonzero(widths == width)
        places = ends[chosen][:, None] - np.arange(width, 0, -1)
        is_own = places >= (ends - lanes)[chosen][:, None]
        rows = np.where(is_own, registers[np.maximum(places, 0)], np.uint32(0))
        size = _LANE_BYTES
        while rows.shape[1] > 1:
            rows = _move(rows[:, 0::2], size) ^ rows[:, 1::2]
            size *= 2
        joined[chosen] = rows[:, 0]
    return joined


def _first_moved(sizes: NDArray[np.int64]) -> Checksums:
    """The first register after as many zero bytes as each piece has."""
    distinct, inverse = np.unique(sizes, return_inverse=True)
    registers = np.full(len(distinct), _FIRST, np.uint32)
    size = 1
    while size <= int(distinct[-1]):
        registers = np.where(distinct & size, _move(registers, size), registers)
        size *= 2
    return registers[inverse]
