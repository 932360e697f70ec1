import contextlib
import gzip
import random
import struct
import tracemalloc

import aiokafka.codec
import cramjam
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.compression import Codec, compress, decompress, decompress_uncopied

CODECS = list(Codec)
COMPRESSING = CODECS[1:]
MEBIBYTE = 1024 * 1024
AMPLE = 4 * MEBIBYTE

payloads = st.one_of(
    st.binary(max_size=2000),
    st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=50), st.integers(0, 4000)),
    st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(0, 99), st.integers(0, 100_000)),
)

DECODE_INDEPENDENTLY = {
    Codec.GZIP: gzip.decompress,
    Codec.SNAPPY: aiokafka.codec.snappy_decode,
    Codec.LZ4: aiokafka.codec.lz4_decode,
    Codec.ZSTD: aiokafka.codec.zstd_decode,
}
ENCODE_INDEPENDENTLY = {
    Codec.GZIP: gzip.compress,
    Codec.SNAPPY: aiokafka.codec.snappy_encode,
    Codec.LZ4: aiokafka.codec.lz4_encode,
    Codec.ZSTD: aiokafka.codec.zstd_encode,
}


@pytest.mark.parametrize("codec", CODECS)
@given(data=payloads)
@example(data=b"")
def test_what_was_compressed_comes_back(codec, data):
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=payloads.filter(bool))
def test_other_implementations_read_what_is_written(codec, data):
    assert bytes(DECODE_INDEPENDENTLY[codec](compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=payloads.filter(bool))
def test_what_other_implementations_write_is_read(codec, data):
    assert decompress(codec, bytes(ENCODE_INDEPENDENTLY[codec](data)), AMPLE) == data


@pytest.mark.parametrize("codec", COMPRESSING)
def test_streams_joined_end_to_end_are_read_as_one(codec):
    assert decompress(codec, compress(codec, b"first,") + compress(codec, b"second"), 100) == b"first,second"


@pytest.mark.parametrize("codec", CODECS)
def test_any_contiguous_buffer_is_taken(codec):
    data = b"0123456789" * 10
    assert decompress(codec, memoryview(b"??" + compress(codec, memoryview(data)))[2:], 100) == data
    assert decompress(codec, bytearray(compress(codec, bytearray(data))), 100) == data


def test_raw_snappy_without_a_stream_is_read():
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(b"raw" * 100)), 300) == b"raw" * 100


def test_snappy_is_written_in_blocks_of_32_kib_behind_the_header_of_the_java_library():
    written = compress(Codec.SNAPPY, bytes(100_000))
    assert written[:16] == b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    sizes = []
    position = 16
    while position < len(written):
        (length,) = struct.unpack_from(">i", written, position)
        position += 4
        sizes.append(len(bytes(cramjam.snappy.decompress_raw(written[position : position + length]))))
        position += length
    assert sizes == [32768, 32768, 32768, 1696]


def test_lz4_blocks_are_independent_which_is_all_that_kafka_reads():
    written = compress(Codec.LZ4, random.Random(1).randbytes(200_000))
    assert written[:4] == b"\x04\x22\x4d\x18"
    flags = written[4]
    assert flags >> 6 == 1, "version"
    assert flags & 0x20, "block independence"


@pytest.mark.parametrize("codec", CODECS)
@given(size=st.integers(1, 300_000))
@example(size=65_536)
@example(size=65_537)
def test_one_byte_more_than_the_limit_is_refused(codec, size):
    written = compress(codec, b"x" * size)
    assert len(decompress(codec, written, size)) == size
    with pytest.raises(CorruptionError, match="limit"):
        decompress(codec, written, size - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec):
    bomb = compress(codec, bytes(64 * MEBIBYTE))
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError, match="limit"):
            decompress(codec, bomb, MEBIBYTE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * MEBIBYTE


def test_a_claimed_snappy_length_is_checked_before_memory_is_taken():
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00a"  # 2^32 - 1 bytes
    with pytest.raises(CorruptionError):
        decompress(Codec.SNAPPY, claim, MEBIBYTE)
    stream = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(claim)) + claim
    with pytest.raises(CorruptionError):
        decompress(Codec.SNAPPY, stream, MEBIBYTE)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=payloads.filter(lambda data: len(data) > 1), share=st.floats(0, 1, exclude_max=True))
def test_cut_input_is_refused_or_gives_less(codec, data, share):
    written = compress(codec, data)
    cut = written[: int(len(written) * share)]
    try:
        read = decompress(codec, cut, AMPLE)
    except CorruptionError:
        return
    assert codec == Codec.SNAPPY, "only the snappy stream may end after any of its blocks"
    assert data.startswith(read)
    assert len(read) < len(data)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=300))
def test_garbage_raises_nothing_but_the_one_error(codec, data):
    for hostile in (data, compress(codec, b"some text " * 20)[:20] + data):
        with contextlib.suppress(CorruptionError):
            decompress(codec, hostile, MEBIBYTE)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(position=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_changed_byte_raises_nothing_but_the_one_error(codec, position, flip):
    written = bytearray(compress(codec, b"some text " * 200))
    written[position % len(written)] ^= flip
    with contextlib.suppress(CorruptionError):
        decompress(codec, written, MEBIBYTE)


def test_an_unknown_codec_is_refused():
    with pytest.raises(CorruptionError, match="no codec"):
        decompress(5, b"", 100)
    with pytest.raises(ValueError, match="no codec"):
        compress(7, b"")


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, *range(1, 10))), (Codec.LZ4, range(1, 18)), (Codec.ZSTD, (-131_072, -1, 1, 3, 22))],
)
def test_every_level_that_kafka_knows_is_one(codec, levels):
    data = b"".join(b"line %d of some text\n" % (i * i) for i in range(3000))
    sizes = {level: len(compress(codec, data, level)) for level in levels}
    for level in levels:
        assert bytes(DECODE_INDEPENDENTLY[codec](compress(codec, data, level))) == data
    assert len(compress(codec, data)) == sizes[{Codec.GZIP: -1, Codec.LZ4: 9, Codec.ZSTD: 3}[codec]]
    assert len(set(sizes.values())) > 1


def test_the_default_of_lz4_is_its_fast_compressor_and_all_others_are_the_slower_one():
    data = b"".join(b"line %d of some text\n" % (i * i) for i in range(3000))
    sizes = [len(compress(Codec.LZ4, data, level)) for level in range(1, 18)]
    assert sizes[9 - 1] == max(sizes) > max(sizes[:8] + sizes[9:])


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_large_results_stand_in_the_callers_memory(codec):
    asked = []

    def allocate(size):
        asked.append(size)
        return memoryview(bytearray(size))

    data = bytes(MEBIBYTE)
    assert decompress_uncopied(codec, compress(codec, data), 2 * MEBIBYTE, allocate) == data
    assert len(asked) == 1
    assert MEBIBYTE <= asked[0] <= 2 * MEBIBYTE
    asked.clear()
    assert decompress_uncopied(codec, compress(codec, bytes(1000)), AMPLE, allocate) == bytes(1000)
    assert asked == []
