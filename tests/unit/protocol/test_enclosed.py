"""Principals and addresses in envelopes."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.default_principal_data.v0.data import DefaultPrincipalData
from kio.serial import entity_writer

from esp.model.errors import ApiError, ErrorCode
from esp.protocol.enclosed import decode_address, decode_principal, encode_address, encode_principal
from esp.protocol.primitives import read_tagged_field

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)


def kafkas_bytes(kind, name, *, is_by_token=False):
    """By kio, which is an oracle independent of the product's codec."""
    buffer = io.BytesIO()
    entity_writer(DefaultPrincipalData)(
        buffer, DefaultPrincipalData(type_=kind, name=name, token_authenticated=is_by_token)
    )
    return struct.pack(">h", 0) + buffer.getvalue()


@given(name=NAMES, is_by_token=st.booleans())
def test_a_principal_travels_in_kafka_s_form(name, is_by_token):
    data = encode_principal(f"User:{name}", is_by_token=is_by_token)
    assert data == kafkas_bytes("User", name, is_by_token=is_by_token)
    assert decode_principal(data) == (f"User:{name}", (), is_by_token)


@given(name=NAMES, groups=st.lists(NAMES, min_size=1, max_size=5))
def test_groups_travel_behind_what_kafka_reads(name, groups):
    data = encode_principal(f"User:{name}", groups=groups)
    assert decode_principal(data) == (f"User:{name}", tuple(groups), False)
    assert data.startswith(kafkas_bytes("User", name)[:-1])
    position = len(kafkas_bytes("User", name)) - 1
    assert data[position] == 1
    tag, begin, end = read_tagged_field(data, position + 1)
    assert (tag, end) == (10_000, len(data))  # so that Kafka's controllers skip it
    assert begin < end


@given(data=st.binary(max_size=60))
def test_bytes_of_any_kind_are_read_or_refused(data):
    with contextlib.suppress(ApiError):
        decode_principal(b"\0\0" + data)


@pytest.mark.parametrize("cut", range(1, 12))
def test_groups_that_are_cut_off_are_refused(cut):
    with pytest.raises(ApiError) as refused:
        decode_principal(encode_principal("User:a", groups=["Group:staff"])[:-cut])
    assert refused.value.code is ErrorCode.principal_deserialization_failure


@pytest.mark.parametrize(
    "data",
    [None, b"", b"\0", b"\0\1" + kafkas_bytes("User", "a")[2:], kafkas_bytes("User", "a")[:-3], b"\0\0\xff\xff\xff"],
)
def test_a_principal_of_another_form_is_refused(data):
    with pytest.raises(ApiError) as refused:
        decode_principal(data)
    assert refused.value.code is ErrorCode.principal_deserialization_failure


@pytest.mark.parametrize(("host", "size"), [("192.0.2.7", 4), ("2001:db8::7", 16)])
def test_an_address_travels_as_bytes(host, size):
    data = encode_address(host)
    assert len(data) == size
    assert decode_address(data) == host


@pytest.mark.parametrize("size", [0, 3, 5, 17])
def test_bytes_that_are_no_address_are_refused(size):
    with pytest.raises(ApiError) as refused:
        decode_address(bytes(size))
    assert refused.value.code is ErrorCode.invalid_request
