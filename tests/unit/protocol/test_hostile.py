"""No bytes make the decoders fail in any other way than by DecodeError, take long, or take memory that was not paid for in bytes."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.protocol.errors import DecodeError
from esp.protocol.fetch_codec import decode_fetch
from esp.protocol.headers import read_request_header
from esp.protocol.messages import decode_request, decode_request_in_slices, decode_response
from esp.protocol.primitives import TEXT_BYTES_MAX
from esp.protocol.produce_codec import decode_produce
from esp.protocol.progress import whole
from esp.protocol.registry import ApiKey
from tests.unit.protocol.hostile import example, mutants, pieces, requests, texts_changed
from tests.unit.protocol.strategies import GROUPS, MESSAGES, entities, kio_bytes, message_id, versions_of, wire_class

HOT = {ApiKey.PRODUCE: decode_produce, ApiKey.FETCH: decode_fetch}
REQUESTS = [message for message in MESSAGES if message[2] == "request"]
RESPONSES = [message for message in MESSAGES if message[2] == "response"]

MEMORY_MAX = 200_000
"""Bytes that reading any mutant of a small message may take at most."""


def decoders(key, version):
    """All that read a request's body."""
    yield lambda body: decode_request(key, version, body)
    if key in HOT:
        yield lambda body: HOT[key](body, version)


@pytest.mark.parametrize("group", GROUPS, ids=message_id)
@settings(max_examples=10)
@given(data=st.data())
def test_the_pieces_of_a_message_are_the_message(group, data):
    for value in versions_of(data.draw(entities(wire_class(group))), group):
        assert b"".join(piece.data for piece in pieces(value)) == kio_bytes(value)


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
def test_every_bad_request_is_a_decode_error_or_is_read(message):
    key, version, _ = message
    request = example(wire_class(message))
    for decode in decoders(key, version):
        check(decode, request)


@pytest.mark.parametrize("message", RESPONSES, ids=message_id)
def test_every_bad_response_is_a_decode_error_or_is_read(message):
    key, version, _ = message
    check(lambda body: decode_response(key, version, body), example(wire_class(message)))


def check(decode, message):
    expected = decode(memoryview(kio_bytes(message)))
    refused = 0
    tracemalloc.start()
    try:
        for mutant in mutants(message):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()  # with refusals that the collector has not come to
            try:
                read = decode(memoryview(mutant.data))
            except DecodeError:
                assert not mutant.is_valid, mutant.what
                refused += 1
            else:
                assert not mutant.what.startswith("cut"), mutant.what
                if mutant.is_valid:
                    assert read == expected, mutant.what
            assert tracemalloc.get_traced_memory()[1] - before < MEMORY_MAX, mutant.what
    finally:
        tracemalloc.stop()
    assert refused >= len(kio_bytes(message))


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
def test_no_request_has_a_text_that_is_longer_than_one_of_kafka_can_be(message):
    """Kafka's readers refuse it in each version, also where the length could say more."""
    key, version, _ = message
    wire = wire_class(message)
    if not wire.__flexible__:
        return
    for decode in readers(key, version):
        for place, longest in texts_changed(example(wire), "x" * TEXT_BYTES_MAX):
            if key is not ApiKey.FETCH or place != "topics.topic":
                decode(memoryview(kio_bytes(longest)))
        for place, longer in texts_changed(example(wire), "x" * (TEXT_BYTES_MAX + 1)):
            with pytest.raises(DecodeError) as refused:
                decode(memoryview(kio_bytes(longer)))
            assert str(TEXT_BYTES_MAX + 1) in str(refused.value), place


def readers(key, version):
    """All that read a request's body for a handler."""
    if key in HOT:
        yield lambda body: HOT[key](body, version)
    else:
        yield lambda body: decode_request(key, version, body)
        yield lambda body: whole(decode_request_in_slices(key, version, body))


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
def test_every_bad_frame_is_a_decode_error_or_is_read(message):
    for mutant in requests(example(wire_class(message))):
        frame = memoryview(mutant.data)[4:]
        try:
            header = read_request_header(frame)
            decode_request(header.api_key, header.api_version, frame[header.body_position :])
        except DecodeError:
            assert not mutant.is_valid, mutant.what


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
@settings(max_examples=10)
@given(garbage=st.binary(max_size=200))
def test_garbage_is_a_decode_error_or_is_read(message, garbage):
    key, version, _ = message
    for decode in decoders(key, version):
        with contextlib.suppress(DecodeError):
            decode(memoryview(garbage))


@pytest.mark.parametrize("message", REQUESTS, ids=message_id)
@settings(max_examples=10)
@given(data=st.data())
def test_a_request_with_any_bytes_changed_is_a_decode_error_or_is_read(message, data):
    key, version, _ = message
    body = bytearray(kio_bytes(example(wire_class(message))))
    for position in data.draw(st.lists(st.integers(0, max(len(body) - 1, 0)), max_size=4)) if body else ():
        body[position] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    for decode in decoders(key, version):
        with contextlib.suppress(DecodeError):
            decode(memoryview(body))
