from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.arrow import checksums
from tests.unit.arrow.rows import texts


@settings(max_examples=50)
@given(pieces=st.lists(st.binary(max_size=40) | st.integers(0, 2000).map(bytes), max_size=8))
def test_numpy_computes_the_checksums_of_short_pieces(pieces: list[bytes]) -> None:
    assert checksums.compute(pieces).tolist() == [crc32c(piece) for piece in pieces]


def test_numpy_computes_the_checksums_of_long_pieces() -> None:
    pieces = [*texts(5, 50, 0, 20_000), *texts(6, 3, 100_000, 6_000_000), b"", bytes(256), bytes(512), b"\0x"]
    assert checksums.compute(pieces).tolist() == [crc32c(piece) for piece in pieces]


def test_the_package_computes_them_where_it_is_installed() -> None:
    assert checksums.checksums_of([b"123456789", memoryview(b"a")]).tolist() == [0xE3069283, crc32c(b"a")]
