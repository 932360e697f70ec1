from hypothesis import given
from hypothesis import strategies as st

from esp.records.builder import NewRecord, encode_records
from esp.records.values import encode_values


def encoded_one_by_one(values: list[bytes]) -> bytes:
    return bytes(encode_records([NewRecord(value) for value in values], [0] * len(values)))


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=200))
def test_values_are_encoded_as_records_are(values):
    assert encode_values(values) == encoded_one_by_one(values)


def test_offset_deltas_of_every_size_are_encoded_as_records_are():
    values = [b"a" * (number % 70) for number in range(8200)]  # deltas of one, two and three bytes
    assert encode_values(values) == encoded_one_by_one(values)


def test_values_of_every_size_of_length_are_encoded_as_records_are():
    values = [b"a" * length for length in (0, 1, 50, 63, 64, 65, 8180, 8191, 8192, 1_048_560, 1_048_576, 2_000_000)]
    assert encode_values(values) == encoded_one_by_one(values)


def test_a_single_value_is_encoded_as_a_record_is():
    assert encode_values([b""]) == encoded_one_by_one([b""])
