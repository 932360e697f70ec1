"""Kafka's unsigned varint: seven bits a byte, low bits first, at most five bytes for 32 bits (KIP-482, ``ByteUtils``)."""

from typing import Final

from esp.ports.network import Buffer
from esp.protocol.errors import DecodeError

MAX_VALUE: Final = 2**32 - 1


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the value at ``position`` and the position after it.

    Raises:
        DecodeError: the value is longer than five bytes or 32 bits.
        IndexError: the buffer ends within the value.
    """
    first = buffer[position]
    if first < 0x80:
        return first, position + 1
    byte = buffer[position + 1]
    if byte < 0x80:  # as the size of most small batches: the loop would cost as much again
        return first & 0x7F | byte << 7, position + 2
    value = first & 0x7F | (byte & 0x7F) << 7
    position += 2
    for shift in (14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_VALUE:
                break
            return value, position
    raise DecodeError("a varint is longer than 32 bits")


def pack_uvarint(value: int) -> bytes:
    """The shortest form of ``value``, which is in ``[0, MAX_VALUE]``."""
    if value < 0x80:
        return _SMALL[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(bytes((value,)) for value in range(0x80))
