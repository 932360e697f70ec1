"""Compression of a batch's records by pyarrow's own codecs, framed as Kafka's Java clients and brokers frame it.

The framing is that of :mod:`esp.records.compression`, which rests on another library: snappy as :mod:`esp.records.xerial` has it, LZ4
in frames whose blocks do not refer to one another. pyarrow's own LZ4 frames have blocks that do, which Kafka refuses; so the frame is
written here around pyarrow's raw blocks.
"""

import struct
from typing import Final

import pyarrow as pa

from esp.arrow.errors import BrokenRecordsError
from esp.model.buffers import Buffer
from esp.records.xerial import XerialError, is_stream, join_blocks, split_blocks

NONE: Final = 0
GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

CODECS: Final = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
"""The numbers of the codecs by Kafka's names."""

_STREAMS: Final = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
_ZSTD_LEVEL: Final = 3

_LZ4_HEADER: Final = bytes.fromhex("04224d18604082")
"""Independent blocks of at most 64 KiB, no checksums; the last byte is the descriptor's own."""
_LZ4_BLOCK_SIZE: Final = 64 * 1024
_LZ4_LENGTH: Final = struct.Struct("<I")
_LZ4_UNCOMPRESSED: Final = 1 << 31
_LZ4_END: Final = bytes(4)

_FIRST_READ: Final = 64 * 1024


def compress(codec: int, data: Buffer) -> Buffer:
    """Compress records with the codec of that number, at Kafka's default level."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return _bytes_of(pa.Codec("gzip"), data)
    if codec == SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == LZ4:
        return _compress_lz4(memoryview(data))
    if codec == ZSTD:
        return _bytes_of(pa.Codec("zstd", compression_level=_ZSTD_LEVEL), data)
    raise ValueError(f"no codec has the number {codec}")


def _bytes_of(codec: pa.Codec, data: Buffer) -> bytes:
    compressed: bytes = codec.compress(data, asbytes=True)
    return compressed


def decompress(codec: int, data: memoryview, limit: int) -> Buffer:
    """Return the decompressed records, at most ``limit`` bytes.

    Raises:
        BrokenRecordsError: the bytes are not of this codec, are cut, hold more than ``limit`` bytes, or no codec has the number.
    """
    if codec == NONE:
        return data
    try:
        if codec == SNAPPY:
            return _decompress_snappy(data, limit)
        if codec in _STREAMS:
            return _decompress_stream(_STREAMS[codec], data, limit)
    except (OSError, pa.ArrowInvalid, XerialError) as error:
        raise BrokenRecordsError(f"its compressed records cannot be read: {error}") from error
    raise BrokenRecordsError(f"no codec has the number {codec}")


def _decompress_stream(name: str, data: memoryview, limit: int) -> bytes:
    """Read in steps that grow: the real size stands nowhere that could be trusted."""
    if not data:
        raise BrokenRecordsError(f"{name}: there is no frame")
    stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name)
    size = max(_FIRST_READ, 4 * len(data))
    parts: list[bytes] = []
    left = limit + 1
    while left > 0:
        part = stream.read(min(size, left))
        if not part:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        parts.append(part)
        left -= len(part)
        size *= 2
    raise BrokenRecordsError(f"its records decompress to more than the limit of {limit} bytes")


def _compress_snappy(view: memoryview) -> bytes:
    snappy = pa.Codec("snappy")
    return join_blocks(view, lambda block: _bytes_of(snappy, block))


def _compress_lz4(view: memoryview) -> bytes:
    lz4 = pa.Codec("lz4_raw")
    parts = [_LZ4_HEADER]
    for start in range(0, len(view), _LZ4_BLOCK_SIZE):
        piece = view[start : start + _LZ4_BLOCK_SIZE]
        block = lz4.compress(piece, asbytes=True)
        if len(block) < len(piece):
            parts += (_LZ4_LENGTH.pack(len(block)), block)
        else:
            parts += (_LZ4_LENGTH.pack(len(piece) | _LZ4_UNCOMPRESSED), bytes(piece))
    parts.append(_LZ4_END)
    return b"".join(parts)


def _decompress_snappy(view: memoryview, limit: int) -> bytes:
    if not is_stream(view):
        return _decompress_block(view, limit, limit)
    parts: list[bytes] = []
    left = limit
    for block in split_blocks(view):
        part = _decompress_block(block, left, limit)
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_block(block: memoryview, left: int, limit: int) -> bytes:
    """One block of raw snappy, which begins with its decompressed size; ``left`` bytes of ``limit`` are not used yet."""
    size = 0
    for number, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * number
        if byte < 0x80:
            break
    else:
        raise BrokenRecordsError("snappy: a block does not begin with its size")
    if size > left:
        raise BrokenRecordsError(f"its records decompress to more than the limit of {limit} bytes")
    found: bytes = pa.Codec("snappy").decompress(block, size, asbytes=True)
    return found
