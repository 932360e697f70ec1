import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.readers import read_unsigned_varint

from esp.protocol.errors import DecodeError
from esp.protocol.primitives import MAX_VALUE, pack_uvarint, read_uvarint


@given(st.integers(0, MAX_VALUE) | st.integers(0, 70_000), st.binary(max_size=3))
def test_what_is_packed_is_read_back_as_kio_reads_it(value, rest):
    encoded = pack_uvarint(value)
    assert read_uvarint(encoded + rest, 0) == (value, len(encoded))
    assert read_unsigned_varint(encoded + rest, 0) == (value, len(encoded))


@given(st.integers(0, MAX_VALUE))
def test_every_form_but_the_shortest_is_longer(value):
    assert len(pack_uvarint(value)) == max(1, -(-value.bit_length() // 7))


@pytest.mark.parametrize(
    ("encoded", "value"), [(b"\x80\x00", 0), (b"\x85\x80\x00", 5), (b"\xff\xff\xff\xff\x0f", MAX_VALUE)]
)
def test_longer_forms_within_five_bytes_are_read(encoded, value):
    assert read_uvarint(encoded, 0) == (value, len(encoded))


@pytest.mark.parametrize(
    "encoded", [b"\x80\x80\x80\x80\x10", b"\xff\xff\xff\xff\xff\x01", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 9]
)
def test_more_than_32_bits_or_five_bytes_are_an_error(encoded):
    with pytest.raises(DecodeError):
        read_uvarint(encoded, 0)


@pytest.mark.parametrize("encoded", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_the_end_of_the_bytes_within_a_value_is_an_index_error(encoded):
    with pytest.raises(IndexError):
        read_uvarint(encoded, 0)
