"""Compression of a batch's records, framed as Kafka's Java clients and brokers frame it.

* gzip: one or more gzip members.
* snappy: the stream of the Java library snappy-java ("xerial"): a header, then blocks of raw snappy behind their lengths. Raw snappy
  without the stream around it is read too, because some clients write it.
* lz4: LZ4 frames whose blocks do not refer to one another: Kafka's reader knows no other.
* zstd: one or more zstd frames.

Levels are numbered as Kafka's settings ``compression.*.level`` number them (KIP-390), and its defaults are the defaults. What is read may
be hostile: output goes to a buffer that starts small and never grows beyond the caller's limit, whatever sizes the input claims.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Final

import cramjam

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.xerial import XerialError, is_stream, join_blocks, split_blocks

Allocate = Callable[[int], memoryview]
"""Memory of a size in bytes, all zero."""


class Codec(IntEnum):
    """The codecs by their number in a batch's attributes (``CODEC_MASK``)."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


GZIP_LEVEL: Final = -1
LZ4_LEVEL: Final = 9
ZSTD_LEVEL: Final = 3
_DEFAULT_LEVELS: Final[dict[int, int]] = {Codec.GZIP: GZIP_LEVEL, Codec.LZ4: LZ4_LEVEL, Codec.ZSTD: ZSTD_LEVEL}

_GZIP_DEFAULT: Final = 6
"""The level for which gzip's own default, -1 in Kafka's settings, stands."""

_LZ4_FAST: Final = 0
_LZ4_HIGH: Final = range(3, 13)
"""The levels of LZ4's slower compressor. Kafka's 9, its default, is the fast one, and all others are the slower one."""

_FIRST_OUTPUT_SIZE: Final = 64 * 1024
_ZEROED_MAX: Final = 256 * 1024
_GROWTH: Final = 4
_ALLOCATED_GROWTH: Final = 64
_OUTPUT_FULL: Final = "failed to write whole buffer"
"""The text of cramjam's error for an output buffer that is too small; its other errors are about the input."""


class TooLargeError(CorruptionError):
    """The bytes may be sound, but are more, when decompressed, than the caller takes."""


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Compress ``data`` with the codec of that number.

    Args:
        codec: a number of :class:`Codec`.
        data: anything.
        level: as in Kafka's settings; the codec's default without it. Codecs that have no levels do not look at it.
    """
    if level is None:
        level = _DEFAULT_LEVELS.get(codec, 0)
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.GZIP:
        return bytes(cramjam.gzip.compress(data, level=_GZIP_DEFAULT if level == GZIP_LEVEL else level))
    if codec == Codec.SNAPPY:
        return _compress_snappy(data)
    if codec == Codec.LZ4:
        lz4_level = _LZ4_FAST if level == LZ4_LEVEL else min(max(level, _LZ4_HIGH[0]), _LZ4_HIGH[-1])
        compressor = cramjam.lz4.Compressor(level=lz4_level, content_checksum=False, block_linked=False)
        compressor.compress(bytes(data))  # it takes no other buffer
        return bytes(compressor.finish())
    if codec == Codec.ZSTD:
        return bytes(cramjam.zstd.compress(data, level=level))
    raise ValueError(f"no codec has the number {codec}")


def decompress(codec: int, data: Buffer, limit: int) -> bytes:
    """Return the decompressed ``data``, at most ``limit`` bytes.

    Raises:
        CorruptionError: the bytes are not of this codec, are cut, hold more than ``limit`` bytes (TooLargeError), or the codec has no
            such number.
    """
    return bytes(decompress_uncopied(codec, data, limit))


def decompress_uncopied(codec: int, data: Buffer, limit: int, allocate: Allocate | None = None) -> Buffer:
    """Return the decompressed ``data`` without a copy of a large result, see :func:`decompress`.

    Args:
        codec: the number of the codec.
        data: the compressed bytes.
        limit: the most bytes that the result may have.
        allocate: where memory for a large result comes from that costs nothing until it is written to (:class:`esp.ports.cpu.Cpu`). So
            much of it is taken at once that the data are decompressed once. Without it, memory is zeroed here, and grows in small steps.
    """
    if codec == Codec.NONE:
        if len(data) > limit:
            raise TooLargeError(f"{len(data)} bytes of records exceed the limit of {limit}")
        return data if isinstance(data, bytes | bytearray) else bytes(data)
    try:
        if codec == Codec.GZIP:
            return _decompress_stream(cramjam.gzip.decompress_into, data, limit, allocate)
        if codec == Codec.SNAPPY:
            return _decompress_snappy(data, limit)
        if codec == Codec.LZ4:
            return _decompress_stream(cramjam.lz4.decompress_into, data, limit, allocate)
        if codec == Codec.ZSTD:
            return _decompress_stream(cramjam.zstd.decompress_into, data, limit, allocate)
    except (cramjam.DecompressionError, XerialError) as error:
        raise CorruptionError(f"{Codec(codec).name.lower()}: {error}") from error
    raise CorruptionError(f"no codec has the number {codec}")


def _decompress_stream(
    decompress_into: Callable[[Buffer, Buffer], int], data: Buffer, limit: int, allocate: Allocate | None
) -> memoryview:
    """Decompress into buffers of growing size: the real size stands nowhere that could be trusted."""
    size = min(limit, max(_FIRST_OUTPUT_SIZE, 4 * len(data)))
    while True:
        output = memoryview(bytearray(size)) if allocate is None or size <= _ZEROED_MAX else allocate(size)
        try:
            length = decompress_into(data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
        else:
            return output[:length]
        if size >= limit:
            raise TooLargeError(f"records decompress to more than the limit of {limit} bytes")
        size = min(limit, (_GROWTH if allocate is None or size < _ZEROED_MAX else _ALLOCATED_GROWTH) * size)


def _compress_snappy(data: Buffer) -> bytes:
    return join_blocks(memoryview(data), lambda block: bytes(cramjam.snappy.compress_raw(block)))


def _decompress_snappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if not is_stream(view):
        return _decompress_snappy_block(view, limit)
    parts: list[bytes] = []
    left = limit
    for block in split_blocks(view):
        part = _decompress_snappy_block(block, left)
        left -= len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    length = cramjam.snappy.decompress_raw_len(block)
    if length > limit:
        raise TooLargeError(f"records decompress to more than the limit of {limit} bytes")
    return bytes(cramjam.snappy.decompress_raw(block))
