"""The parts of an Envelope (KIP-590): the principal and the address of the client that has sent the enclosed request.

The principal is Kafka's ``DefaultPrincipalData`` behind its version, the address has four or sixteen bytes.
"""

import ipaddress
import struct
from typing import Final

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.errors import DecodeError
from esp.protocol.reader import compile_reader
from esp.protocol.writer import compile_writer

_VERSION: Final = struct.Struct(">h")
_ONLY_VERSION: Final = 0
_read_principal: Final = compile_reader(DefaultPrincipalData, DefaultPrincipalData)
_write_principal: Final = compile_writer(DefaultPrincipalData, DefaultPrincipalData)


def encode_principal(principal: str) -> bytes:
    """The bytes of a principal, which is given as ``TYPE:NAME``."""
    kind, _, name = principal.partition(":")
    parts = [_VERSION.pack(_ONLY_VERSION)]
    _write_principal(parts.append, DefaultPrincipalData(type_=kind, name=name, token_authenticated=False))
    return b"".join(parts)


def decode_principal(data: Buffer | None) -> str:
    """Return the principal as ``TYPE:NAME``.

    Raises:
        ApiError: PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    failure = ErrorCode.principal_deserialization_failure
    if data is None or len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != _ONLY_VERSION:
        raise ApiError(failure, "The principal has another form than that of this release.")
    try:
        principal: DefaultPrincipalData = _read_principal(memoryview(data)[_VERSION.size :])
    except DecodeError as error:
        raise ApiError(failure, f"The principal cannot be read: {error}") from error
    return f"{principal.type_}:{principal.name}"


def encode_address(host: str) -> bytes:
    """The bytes of an address, given as text.

    Raises:
        ValueError: it is none.
    """
    return ipaddress.ip_address(host).packed


def decode_address(data: Buffer) -> str:
    """Return an address as text.

    Raises:
        ApiError: INVALID_REQUEST: it has another number of bytes than an address.
    """
    try:
        return str(ipaddress.ip_address(bytes(data)))
    except ValueError as error:
        raise ApiError(ErrorCode.invalid_request, "The client's address has neither 4 nor 16 bytes.") from error
