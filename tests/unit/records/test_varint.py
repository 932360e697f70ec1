import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.varint import GOES_ON, append_varint, read_on, read_varint, read_varlong
from tests.unit.records.independent import decode_varint, encode_varint

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def encoded(value: int) -> bytes:
    output = bytearray()
    append_varint(output, value)
    return bytes(output)


@given(INT32)
@example(-(2**31))
@example(2**31 - 1)
def test_32_bit_integers_come_back(value):
    data = encoded(value)
    assert len(data) <= 5
    assert read_varint(b"??" + data + b"?", 2) == (value, 2 + len(data))


@given(INT64)
@example(-(2**63))
@example(2**63 - 1)
def test_64_bit_integers_come_back(value):
    data = encoded(value)
    assert len(data) <= 10
    assert read_varlong(data, 0) == (value, len(data))


@given(INT64)
def test_the_form_is_that_of_an_independent_encoder(value):
    independent = bytearray()
    encode_varint(value, independent.append)
    assert encoded(value) == independent
    assert decode_varint(independent, 0) == (value, len(independent))


@given(INT64)
def test_a_cut_integer_is_noticed(value):
    data = encoded(value)
    with pytest.raises(IndexError):
        read_varlong(data[:-1], 0)


def test_an_integer_that_never_ends_is_refused():
    with pytest.raises(CorruptionError, match="goes on"):
        read_varint(b"\xff" * 20, 0)
    with pytest.raises(CorruptionError, match="goes on"):
        read_varlong(b"\xff" * 20, 0)


def test_an_integer_beyond_its_range_is_refused():
    with pytest.raises(CorruptionError, match="32 bits"):
        read_varint(encoded(2**31), 0)
    with pytest.raises(CorruptionError, match="64 bits"):
        read_varlong(b"\xff" * 9 + b"\x7f", 0)


@given(INT32.filter(lambda value: not -65 < value < 64))
@example(64)
@example(-(2**31))
def test_the_rest_of_an_integer_is_read_behind_its_first_byte(value):
    data = encoded(value)
    assert data[0] >= GOES_ON
    bits, position = read_on(b"?" + data + b"?", 2, data[0])
    assert ((bits >> 1) ^ -(bits & 1), position) == (value, 1 + len(data))
