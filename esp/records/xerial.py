"""The stream of the Java library snappy-java ("xerial"): a header, then blocks of raw snappy behind their lengths.

This is the framing alone. Each caller has a library of its own for the blocks, and errors of its own; some callers run where only the
standard library is sure to be there.
"""

import struct
from collections.abc import Callable, Iterator
from typing import Final

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + struct.pack(">ii", 1, 1)
_BLOCK_SIZE: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")


class XerialError(Exception):
    """Bytes that begin as a stream are not one; the text is the reason."""


def join_blocks(data: memoryview, compress: Callable[[memoryview], bytes]) -> bytes:
    """Return the stream of some data, of which ``compress`` makes raw snappy, block by block."""
    parts = [_HEADER]
    for start in range(0, len(data), _BLOCK_SIZE):
        block = compress(data[start : start + _BLOCK_SIZE])
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def is_stream(data: memoryview) -> bool:
    """True if the data begins as a stream does; some clients write raw snappy without one."""
    return bytes(data[: len(_MAGIC)]) == _MAGIC


def split_blocks(data: memoryview) -> Iterator[memoryview]:
    """Return the blocks of raw snappy of a stream, or of several that are joined end to end.

    Raises:
        XerialError: the stream is cut, or a length is wrong.
    """
    if len(data) < len(_HEADER):
        raise XerialError("stream header is cut")
    position = len(_HEADER)
    while position < len(data):
        if bytes(data[position : position + len(_MAGIC)]) == _MAGIC:
            position += len(_HEADER)
            continue
        start = position + _BLOCK_LENGTH.size
        if start > len(data):
            raise XerialError("block length is cut")
        length: int = _BLOCK_LENGTH.unpack_from(data, position)[0]
        position = start + length
        if length <= 0 or position > len(data):
            raise XerialError(f"block of {length} bytes where {len(data) - start} are left")
        yield data[start:position]
