import numpy as np
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from esp.arrow import checksums
from tests.unit.arrow.rows import texts


@given(data=st.binary(max_size=200))
def test_numpy_computes_the_checksum_of_short_pieces(data: bytes) -> None:
    assert checksums._compute(np.frombuffer(data, np.uint8)) == crc32c(data)


def test_numpy_computes_the_checksum_of_long_pieces() -> None:
    for data in [*texts(5, 20, 2_000, 20_000), *texts(6, 2, 100_000, 3_000_000), bytes(5000)]:
        assert checksums._compute(np.frombuffer(data, np.uint8)) == crc32c(data)


def test_the_package_computes_them_where_it_is_installed() -> None:
    assert checksums.checksums_of([b"123456789", memoryview(b"a")]).tolist() == [0xE3069283, crc32c(b"a")]
