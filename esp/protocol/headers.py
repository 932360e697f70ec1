"""The headers in front of every request and response.

A request header is version 1 or, for flexible versions, version 2 with tagged fields; its client id is always a string with the
old two-byte length. A response header is the correlation id and, for flexible versions, tagged fields, except that ApiVersions
answers always go without (KIP-511: a client that does not know the broker yet must be able to read them).
"""

import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError, UnsupportedRequestError
from esp.protocol.primitives import skip_tagged_fields
from esp.protocol.registry import SERVED, ApiKey, ServedApi

_FIXED: Final = struct.Struct(">hhih")
_CORRELATION_ID: Final = struct.Struct(">i")


class RequestHeader(NamedTuple):
    """A request's header, and where its body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


def is_flexible(api_key: int, version: int) -> bool:
    """True if messages of a served API's version have compact lengths and tagged fields."""
    return version >= SERVED[api_key].flexible_from


def read_request_header(frame: Buffer, served: Mapping[int, ServedApi] = SERVED) -> RequestHeader:
    """Read the header of a request; ``frame`` is the request without the length in front of it, ``served`` the APIs that are served.

    An ApiVersions request comes back whatever its version, with nothing to be read of the body of an unsupported one: it is answered by
    :func:`~esp.protocol.messages.encode_unsupported_api_versions` (KIP-511).

    Raises:
        UnsupportedRequestError: the API or the version is not served.
        DecodeError: the bytes are no header.
    """
    try:
        api_key, version, correlation_id, length = _FIXED.unpack_from(frame)
        api = served.get(api_key)
        if api is None or not api.min_version <= version <= api.max_version:
            if api_key == ApiKey.API_VERSIONS:
                return RequestHeader(api_key, version, correlation_id, None, len(frame))
            raise UnsupportedRequestError(api_key, version)
        position = _FIXED.size
        client_id = None
        if length >= 0:
            end = position + length
            if end > len(frame):
                raise DecodeError(f"client_id: a length of {length} with {len(frame) - position} bytes left")
            client_id = str(frame[position:end], "utf-8")
            position = end
        elif length != -1:
            raise DecodeError(f"client_id: a length of {length}")
        if version >= api.flexible_from:
            position = skip_tagged_fields(frame, position) if frame[position] else position + 1
    except (IndexError, struct.error) as error:
        raise DecodeError("the request header is truncated") from error
    except UnicodeDecodeError as error:
        raise DecodeError("client_id: the text is not UTF-8") from error
    # Without the constructor's call: this is done for every request.
    return tuple.__new__(RequestHeader, (api_key, version, correlation_id, client_id, position))


def pack_request_header(api_key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request, as a client sends it."""
    encoded = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(encoded)
    tagged_fields = b"\0" if is_flexible(api_key, version) else b""
    return _FIXED.pack(api_key, version, correlation_id, length) + encoded + tagged_fields


def pack_response_header(api_key: int, version: int, correlation_id: int) -> bytes:
    """The header of a response."""
    header = _CORRELATION_ID.pack(correlation_id)
    return header + b"\0" if has_tagged_response_header(api_key, version) else header


def read_response_header(frame: Buffer, api_key: int, version: int) -> tuple[int, int]:
    """Return the correlation id of a response, and where its body begins in the frame.

    Raises:
        DecodeError: the bytes are no header.
    """
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
        position = _CORRELATION_ID.size
        if has_tagged_response_header(api_key, version):
            position = skip_tagged_fields(frame, position)
    except (IndexError, struct.error) as error:
        raise DecodeError("the response header is truncated") from error
    return correlation_id, position


def has_tagged_response_header(api_key: int, version: int) -> bool:
    """True if the response header is version 1, which ends with tagged fields."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version)
