import struct
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.protocol.errors import DecodeError
from esp.protocol.headers import read_request_header, read_response_header
from esp.protocol.messages import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.unit.protocol.strategies import (
    MESSAGES,
    entities,
    kio_bytes,
    message_id,
    model_class,
    project,
    wire_class,
)


@pytest.mark.parametrize("message", MESSAGES, ids=message_id)
@settings(max_examples=2)
@given(data=st.data())
def test_every_served_message_is_encoded_and_decoded(message, data):
    key, version, kind = message
    wire = wire_class(message)
    value = data.draw(entities(model_class(message)).filter(lambda value: project(value, wire) is not None))
    if kind == "request":
        frame = encode_request(key, version, 5, "client", value)
        header = read_request_header(memoryview(frame)[4:])
        assert header[:4] == (key, version, 5, "client")
        body = memoryview(frame)[4 + header.body_position :]
        decoded = decode_request(key, version, body)
    else:
        frame = encode_response(key, version, 5, value)
        correlation_id, position = read_response_header(memoryview(frame)[4:], key, version)
        assert correlation_id == 5
        body = memoryview(frame)[4 + position :]
        decoded = decode_response(key, version, body)
    assert struct.unpack_from(">i", frame)[0] == len(frame) - 4
    assert isinstance(decoded, model_class(message))
    assert kio_bytes(project(decoded, wire)) == body


def test_a_request_that_is_none_is_a_decode_error():
    with pytest.raises(DecodeError):
        decode_request(3, 12, b"\xff")


USES_ONE_VERSION = """
import sys
from esp.protocol.messages import decode_request
decode_request(3, 12, bytes((1, 0, 0, 0)))
loaded = {name for name in sys.modules if name.startswith("kio.schema.") and name.endswith(("request", "response"))}
used = ("metadata.v12", "metadata.v13", "api_versions.v4")
assert loaded <= {f"kio.schema.{api}.{kind}" for api in used for kind in ("request", "response")}, loaded
assert "hypothesis" not in sys.modules
import hypothesis
"""


def test_only_what_is_used_is_loaded_and_hypothesis_never():
    """Start-up time and memory rest on this: all of kio's classes cost 0.9 s and 62 MB, hypothesis another 20 MB."""
    subprocess.run([sys.executable, "-c", USES_ONE_VERSION], check=True, timeout=60)
