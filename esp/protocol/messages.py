"""Whole messages: the one place that knows that kio has a class for each version of each API.

Handlers see classes of the model version only (:mod:`esp.protocol.registry`). Classes, readers and writers load on first use of an API's
version: all of kio's classes together cost 0.9 s and 62 MB.

Messages are typed ``Any`` here: the numbers decide which class is returned. Handlers annotate the messages they get.
"""

import datetime as dt
import struct
from collections.abc import Generator, Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.static.primitive import i32Timedelta

from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.protocol.entity_fields import Entity
from esp.protocol.headers import pack_request_header, pack_response_header
from esp.protocol.reader import compile_reader
from esp.protocol.registry import SERVED, ApiKey, ServedApi, api_version_row
from esp.protocol.slices import compile_sliced_reader, compile_sliced_writer
from esp.protocol.writer import compile_writer

_LENGTH: Final = struct.Struct(">i")

LENGTH_BYTES: Final = _LENGTH.size
"""The bytes of the length in front of a frame."""

_MODULES_OF_OURS: Final[Mapping[tuple[ApiKey, int, str], str]] = MappingProxyType(
    {
        (ApiKey.DESCRIBE_PRODUCERS, 0, "request"): "esp.protocol.own_fields",
        (ApiKey.DESCRIBE_PRODUCERS, 0, "response"): "esp.protocol.own_fields",
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, "request"): "esp.protocol.own_fields",
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, "response"): "esp.protocol.own_fields",
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, "request"): "esp.protocol.trash",
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, "response"): "esp.protocol.trash",
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, "request"): "esp.protocol.trash",
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, "response"): "esp.protocol.trash",
        (ApiKey.LIST_GROUPS, 5, "request"): "esp.protocol.held_positions",
        (ApiKey.LIST_GROUPS, 5, "response"): "esp.protocol.held_positions",
        (ApiKey.BROKER_HEARTBEAT, 2, "request"): "esp.protocol.broker_heartbeat",
    }
)
"""The modules of messages with tagged fields of our own (:mod:`esp.protocol.own_fields`)."""

_MODELS_OF_OURS: Final[Mapping[tuple[ApiKey, str], str]] = MappingProxyType(
    {
        (ApiKey.SHARE_FETCH, "request"): "esp.protocol.share_requests",
        (ApiKey.SHARE_ACKNOWLEDGE, "request"): "esp.protocol.share_requests",
    }
)
"""The modules of classes that handlers see in place of those of the model version; their bytes are the same."""

_PIECE_PARTS: Final = 10_000
"""Values in a piece of a frame that is written in slices: some tens of kilobytes, of which a connection sends many at once."""


def decode_request(api_key: int, version: int, body: Buffer) -> Any:
    """Read a request's body into an instance of its API's request model class. Bytes after the last field are ignored.

    Raises:
        DecodeError: the bytes are no such request.
    """
    return _request_reader(api_key, version)(body)


def encode_response(api_key: int, version: int, correlation_id: int, message: Any) -> bytes:
    """The whole frame of a response, length included; ``message`` has the fields of its API's response model class.

    Raises:
        UnwritableError: the version has no room for a text of the message.
    """
    parts: list[bytes] = [b"", pack_response_header(api_key, version, correlation_id)]
    _response_writer(api_key, version)(parts.append, message)
    return _framed(parts)


def decode_request_in_slices(api_key: int, version: int, body: Buffer) -> Generator[None, None, Any]:
    """Decode a request like :func:`decode_request`, yielding after each slice. Returns the message.

    Raises:
        DecodeError: the bytes are no such request, or one of more than :data:`esp.protocol.progress.ELEMENTS_MAX` elements.
    """
    return compile_sliced_reader(*_wire_and_model(api_key, version, "request"))(body)


def encode_response_in_slices(
    api_key: int, version: int, correlation_id: int, message: Any
) -> Generator[None, None, list[bytes]]:
    """Encode a response like :func:`encode_response`, yielding after each slice. Returns the frame in pieces.

    Raises:
        UnwritableError: the version has no room for a text of the message.
    """
    write = compile_sliced_writer(*_wire_and_model(api_key, version, "response"))
    pieces: list[bytes] = [b""]
    parts: list[bytes] = [pack_response_header(api_key, version, correlation_id)]
    for _ in write(parts.append, message):
        if len(parts) >= _PIECE_PARTS:
            pieces.append(b"".join(parts))
            parts.clear()
        yield
    pieces.append(b"".join(parts))
    pieces[0] = _LENGTH.pack(sum(map(len, pieces)))
    return pieces


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, message: Any) -> bytes:
    """The whole frame of a request, length included; ``message`` has the fields of its API's request model class."""
    parts: list[bytes] = [b"", pack_request_header(api_key, version, correlation_id, client_id)]
    _request_writer(api_key, version)(parts.append, message)
    return _framed(parts)


def decode_response(api_key: int, version: int, body: Buffer) -> Any:
    """Read a response's body into an instance of its API's response model class. Bytes after the last field are ignored.

    Raises:
        DecodeError: the bytes are no such response.
    """
    return _response_reader(api_key, version)(body)


def encode_unsupported_api_versions(correlation_id: int) -> bytes:
    """The frame that answers an ApiVersions request of an unsupported version.

    It is of version 0, which every client can read, with the error and the one row that says what to ask with (KIP-511).
    """
    key = ApiKey.API_VERSIONS
    answer = ApiVersionsResponse(
        error_code=ErrorCode.unsupported_version,
        api_keys=(api_version_row(SERVED[key]),),
        throttle_time=i32Timedelta.parse(dt.timedelta(0)),
    )
    return encode_response(key, 0, correlation_id, answer)


def load_class(api: ServedApi, version: int, kind: str) -> type[Entity]:
    """The class of one version's request or response: kio's, or ours if it has a field more; ``kind`` is the one word or the other."""
    own = _MODULES_OF_OURS.get((api.key, version, kind))
    if own is not None:
        return _load_own(own, api, kind)
    stem = "".join("_" + letter.lower() if letter.isupper() else letter for letter in api.name).lstrip("_")
    module = import_module(f"kio.schema.{stem}.v{version}.{kind}")
    loaded: type[Entity] = getattr(module, api.name + kind.capitalize())
    return loaded


def _load_own(module: str, api: ServedApi, kind: str) -> type[Entity]:
    loaded: type[Entity] = getattr(import_module(module), api.name + kind.capitalize())
    return loaded


def prepare_to_serve(api_key: int, version: int) -> None:
    """Make the reader of this version's requests and the writer of its answers now: their first use would otherwise take milliseconds."""
    _request_reader(api_key, version)
    _response_writer(api_key, version)
    compile_sliced_reader(*_wire_and_model(api_key, version, "request"))
    compile_sliced_writer(*_wire_and_model(api_key, version, "response"))


@cache
def _request_reader(api_key: int, version: int) -> Any:
    return compile_reader(*_wire_and_model(api_key, version, "request"))


@cache
def _request_writer(api_key: int, version: int) -> Any:
    return compile_writer(*_wire_and_model(api_key, version, "request"))


@cache
def _response_reader(api_key: int, version: int) -> Any:
    return compile_reader(*_wire_and_model(api_key, version, "response"))


@cache
def _response_writer(api_key: int, version: int) -> Any:
    return compile_writer(*_wire_and_model(api_key, version, "response"))


@cache
def _wire_and_model(api_key: int, version: int, kind: str) -> tuple[type[Entity], type[Entity]]:
    """The classes of one version's request or response: of the bytes, and for the handlers."""
    api = SERVED[api_key]
    assert api.serves(version)
    wire = load_class(api, version, kind)
    own = _MODELS_OF_OURS.get((api.key, kind))
    if own is not None:
        return wire, _load_own(own, api, kind)
    model_version = api.request_model(version) if kind == "request" else api.response_model(version)
    return wire, load_class(api, model_version, kind)


def _framed(parts: list[bytes]) -> bytes:
    """Join the parts and put their length in front; the first part is the place for it."""
    parts[0] = _LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)
