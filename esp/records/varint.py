"""Kafka's variable-length integers: zigzag for signed values, then seven bits a byte, least significant first.

Readers raise IndexError at the end of the bytes and CorruptionError for an integer that never ends or leaves its range; callers that
read bytes of unknown origin turn the former into the latter.
"""

from typing import Final

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError

GOES_ON: Final = 0x80
"""The bit that says that another byte of the integer follows."""

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed 32-bit integer; return it and the position behind it."""
    raw, end = _read_raw(data, position, _VARINT_BYTES)
    if raw > 0xFFFF_FFFF:
        raise CorruptionError(f"varint at {position} does not fit 32 bits")
    return (raw >> 1) ^ -(raw & 1), end


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Read a signed 64-bit integer; return it and the position behind it."""
    raw, end = _read_raw(data, position, _VARLONG_BYTES)
    if raw > 0xFFFF_FFFF_FFFF_FFFF:
        raise CorruptionError(f"varlong at {position} does not fit 64 bits")
    return (raw >> 1) ^ -(raw & 1), end


def read_on(data: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the rest of a 32-bit integer whose ``first`` byte, before ``position``, does not end it.

    Returns its bits as they stand there, with the sign as the lowest one, and the position behind it. For loops over many records, which
    read single bytes by themselves.
    """
    second = data[position]
    if second < GOES_ON:
        return first & 0x7F | second << 7, position + 1
    value, position = read_varint(data, position - 1)
    return (value << 1) ^ (value >> 31), position


def append_varint(output: bytearray, value: int) -> None:
    """Write a signed integer of up to 64 bits; varint and varlong share their form."""
    raw = (value << 1) if value >= 0 else ((-value << 1) - 1)
    while raw > 0x7F:
        output.append((raw & 0x7F) | 0x80)
        raw >>= 7
    output.append(raw)


def _read_raw(data: Buffer, position: int, most_bytes: int) -> tuple[int, int]:
    """Read an unsigned integer of at most ``most_bytes`` bytes."""
    raw = 0
    for index in range(most_bytes):
        byte = data[position + index]
        raw |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return raw, position + index + 1
    raise CorruptionError(f"variable-length integer at {position} goes on after {most_bytes} bytes")
