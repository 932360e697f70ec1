"""CRC-32C of many pieces. The package ``crc32c`` computes it with the processor's own instruction; where it is not installed numpy does.

numpy computes the checksums of all pieces side by side, each piece cut in lanes: a lane is a polynomial whose checksum is found two bytes
at a step, and the checksums of a piece's lanes are then joined, each moved by the bytes behind it.
"""

from collections.abc import Callable, Sequence
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
_LANE_BYTES: Final = 1024
_LANES_MAX: Final = 1 << 14


def checksums_of(pieces: Sequence[Buffer]) -> Checksums:
    """Return the CRC-32C of each piece."""
    if _native is not None:
        return np.fromiter((_native(piece) for piece in pieces), np.uint32, len(pieces))
    return np.array([_compute(np.frombuffer(piece, np.uint8)) for piece in pieces], np.uint32)


def _make_word_table() -> Checksums:
    """By two bytes: the register after them, of one that held them."""
    return _after_zeros(np.arange(1 << 16, dtype=np.uint32), 16)


def _after_zeros(registers: Checksums, bits: int) -> Checksums:
    """The registers after so many zero bits."""
    for _ in range(bits):
        registers = (registers >> np.uint32(1)) ^ np.where(registers & 1, np.uint32(_POLYNOMIAL), np.uint32(0))
    return registers


_words: Checksums | None = None
_moves: dict[int, Checksums] = {}


def _word_table() -> Checksums:
    global _words  # noqa: PLW0603 - made when it is first needed, which is never where the package is installed
    if _words is None:
        _words = _make_word_table()
    return _words


def _compute(octets: NDArray[np.uint8]) -> int:
    register = 0xFFFF_FFFF
    position = 0
    while len(octets) - position >= 2 * _LANE_BYTES:
        lanes = min((len(octets) - position) // _LANE_BYTES, _LANES_MAX)
        stop = position + lanes * _LANE_BYTES
        register = _join_lanes(octets[position:stop].reshape(lanes, _LANE_BYTES), register)
        position = stop
    table = _word_table()
    rest = octets[position:]
    even = len(rest) & ~1
    for word in rest[:even].view("<u2").tolist():
        register = int(table[(register ^ word) & 0xFFFF]) ^ register >> 16
    if even != len(rest):
        register ^= int(rest[-1])
        for _ in range(8):
            register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    return register ^ 0xFFFF_FFFF


def _join_lanes(lanes: NDArray[np.uint8], register: int) -> int:
    """The register after the bytes of all lanes, one behind the other."""
    table = _word_table()
    columns = np.ascontiguousarray(lanes.view("<u2").T)
    registers = np.zeros(len(lanes), np.uint32)
    registers[0] = register
    for column in columns:
        registers = table[(registers ^ column) & 0xFFFF] ^ registers >> 16
    size = _LANE_BYTES
    while len(registers) > 1:
        if len(registers) & 1:  # zero bytes in front do not change a register of zero
            registers = np.append(np.zeros(1, np.uint32), registers)
        registers = _move(registers[0::2], size) ^ registers[1::2]
        size *= 2
    return int(registers[0])


def _move(registers: Checksums, size: int) -> Checksums:
    """The registers after ``size`` zero bytes: a linear map, of which there is a column for each bit."""
    matrix = _moves.get(size)
    if matrix is None:
        bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
        matrix = _after_zeros(bits, 8) if size == 1 else _move(_move(bits, size // 2), size // 2)
        _moves[size] = matrix
    moved = np.zeros(len(registers), np.uint32)
    for bit in range(32):
        moved ^= np.where(registers >> np.uint32(bit) & np.uint32(1), matrix[bit], np.uint32(0))
    return moved
