import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.arrow import codecs
from esp.arrow.errors import BrokenRecordsError
from esp.records import compression
from esp.records.compression import Codec
from tests.unit.arrow.rows import texts

CODECS = list(Codec)
SOME = settings(max_examples=30)
LIMIT = 1 << 24
LONG = [bytes(300_000), b"".join(texts(1, 500, 0, 900)), b"abc" * 70_000]


@pytest.mark.parametrize("codec", CODECS)
@SOME
@given(data=st.binary(max_size=3000) | st.sampled_from(LONG))
def test_each_library_reads_what_the_other_wrote(codec: Codec, data: bytes) -> None:
    ours = codecs.compress(codec, data)
    assert bytes(codecs.decompress(codec, memoryview(ours), LIMIT)) == data
    assert compression.decompress(codec, ours, LIMIT) == data
    assert bytes(codecs.decompress(codec, memoryview(compression.compress(codec, data)), LIMIT)) == data


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = memoryview(compression.compress(codec, bytes(200_000)))
    assert len(codecs.decompress(codec, packed, 200_000)) == 200_000
    with pytest.raises(BrokenRecordsError, match="more than the limit of 199999 bytes"):
        codecs.decompress(codec, packed, 199_999)


@pytest.mark.parametrize("codec", CODECS[1:])
@SOME
@given(
    data=st.binary(min_size=1, max_size=300), share=st.floats(0, 1, exclude_max=True), garbage=st.binary(max_size=40)
)
def test_cut_and_random_bytes_are_refused(codec: Codec, data: bytes, share: float, garbage: bytes) -> None:
    packed = compression.compress(codec, data)
    for broken in (packed[: int(len(packed) * share)], garbage):
        try:
            found = bytes(codecs.decompress(codec, memoryview(broken), LIMIT))
        except BrokenRecordsError:
            continue
        assert compression.decompress(codec, broken, LIMIT) == found


def test_raw_and_joined_snappy_are_read() -> None:
    raw = bytes(cramjam.snappy.compress_raw(b"abc" * 100))
    assert bytes(codecs.decompress(Codec.SNAPPY, memoryview(raw), LIMIT)) == b"abc" * 100
    twice = 2 * compression.compress(Codec.SNAPPY, b"xyz")
    assert codecs.decompress(Codec.SNAPPY, memoryview(twice), LIMIT) == b"xyzxyz"


def test_an_unknown_codec_is_named() -> None:
    with pytest.raises(BrokenRecordsError, match="no codec has the number 7"):
        codecs.decompress(7, memoryview(b"x"), LIMIT)
    with pytest.raises(ValueError, match="no codec has the number 7"):
        codecs.compress(7, b"x")
