import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.schema.response_header.v0.header import ResponseHeader as KioResponseHeaderV0
from kio.schema.response_header.v1.header import ResponseHeader as KioResponseHeaderV1

from esp.protocol.errors import DecodeError, UnsupportedRequestError
from esp.protocol.headers import (
    has_tagged_response_header,
    is_flexible,
    pack_request_header,
    pack_response_header,
    read_request_header,
    read_response_header,
)
from esp.protocol.primitives import skip_tagged_fields
from tests.unit.protocol.strategies import MESSAGES, kio_bytes, message_id, wire_class

REQUESTS = [message for message in MESSAGES if message[2] == "request"]
RESPONSES = [message for message in MESSAGES if message[2] == "response"]
CLIENT_IDS = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
def test_the_request_header_is_of_the_version_that_kio_says(message):
    key, version, _ = message
    schema = wire_class(message).__header_schema__
    assert schema is (KioHeaderV2 if is_flexible(key, version) else KioHeaderV1)


@pytest.mark.parametrize("message", RESPONSES, ids=message_id)
def test_the_response_header_is_of_the_version_that_kio_says(message):
    key, version, _ = message
    schema = wire_class(message).__header_schema__
    tagged = has_tagged_response_header(key, version)
    assert schema is (KioResponseHeaderV1 if tagged else KioResponseHeaderV0)
    assert pack_response_header(key, version, -7) == kio_bytes(schema(correlation_id=-7))


@given(st.sampled_from(REQUESTS), st.integers(-(2**31), 2**31 - 1), CLIENT_IDS, st.binary(max_size=9))
def test_a_request_header_is_read_as_kio_wrote_it(message, correlation_id, client_id, body):
    key, version, _ = message
    header = wire_class(message).__header_schema__(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    encoded = kio_bytes(header)
    assert pack_request_header(key, version, correlation_id, client_id) == encoded
    read = read_request_header(memoryview(encoded + body))
    assert read == (key, version, correlation_id, client_id, len(encoded))


@given(st.sampled_from(REQUESTS), CLIENT_IDS)
def test_a_header_cut_anywhere_is_an_error(message, client_id):
    key, version, _ = message
    encoded = pack_request_header(key, version, 1, client_id)
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            read_request_header(encoded[:length])


@pytest.mark.parametrize(
    ("key", "version"), [(0, 0), (0, 2), (0, 14), (1, 3), (8, 1), (999, 0), (-1, 0), (3, -1), (3, 14), (60, 0)]
)
def test_what_is_not_served_is_told_apart(key, version):
    with pytest.raises(UnsupportedRequestError) as raised:
        read_request_header(struct.pack(">hhih", key, version, 1, -1) + bytes(20))
    assert (raised.value.api_key, raised.value.api_version) == (key, version)


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_api_versions_of_any_version_comes_back(version):
    header = read_request_header(struct.pack(">hhih", 18, version, 77, 5000))
    assert (header.api_key, header.api_version, header.correlation_id) == (18, version, 77)


@pytest.mark.parametrize("length", [-2, -(2**15), 2**15 - 1, 4])
def test_a_client_id_beyond_the_frame_is_an_error(length):
    with pytest.raises(DecodeError, match="client_id"):
        read_request_header(struct.pack(">hhih", 3, 4, 1, length) + b"abc")


def test_a_client_id_must_be_utf8():
    with pytest.raises(DecodeError, match="UTF-8"):
        read_request_header(struct.pack(">hhih", 3, 4, 1, 2) + b"\xc3\x28")


def test_tagged_fields_of_a_request_header_are_skipped():
    encoded = struct.pack(">hhih", 3, 9, 1, 1) + b"c" + b"\x02\x00\x03abc\x81\x01\x00" + b"body"
    assert encoded[read_request_header(encoded).body_position :] == b"body"


@pytest.mark.parametrize(
    "fields", [b"\xff\xff\xff\xff\x0f", b"\x03\x00\x00\x01\x00", b"\x01\x00\x05abcd", b"\x01\x00\xff\xff\xff\xff\x0f"]
)
def test_tagged_fields_beyond_the_frame_are_an_error(fields):
    with pytest.raises(DecodeError):
        skip_tagged_fields(fields, 0)
    with pytest.raises(DecodeError):
        read_request_header(struct.pack(">hhih", 3, 9, 1, -1) + fields)


@given(st.sampled_from(RESPONSES), st.integers(-(2**31), 2**31 - 1), st.binary(max_size=9))
def test_a_response_header_is_read_back(message, correlation_id, body):
    key, version, _ = message
    encoded = pack_response_header(key, version, correlation_id)
    assert read_response_header(encoded + body, key, version) == (correlation_id, len(encoded))
    for length in range(len(encoded)):
        with pytest.raises(DecodeError):
            read_response_header(encoded[:length], key, version)
