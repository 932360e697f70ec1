"""The parts of an Envelope (KIP-590): the principal and the address of the client that has sent the enclosed request.

The principal is Kafka's ``DefaultPrincipalData`` behind its version, the address has four or sixteen bytes. Kafka's class has no room for
groups: they travel as a tagged field of our own, which Kafka's controllers skip.
"""

import ipaddress
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import (
    pack_nullable_text,
    pack_tagged_fields,
    pack_uvarint,
    read_compact_count,
    read_compact_text,
    read_tagged_field,
    read_tagged_field_count,
)
from esp.protocol.reader import compile_reader
from esp.protocol.writer import compile_writer

_VERSION: Final = struct.Struct(">h")
_ONLY_VERSION: Final = 0
_read_principal: Final = compile_reader(DefaultPrincipalData, DefaultPrincipalData)
_write_principal: Final = compile_writer(DefaultPrincipalData, DefaultPrincipalData)


_NO_TAGS: Final = b"\0"
_GROUPS_TAG: Final = 10_000
"""Far from the tags that Kafka gives out, which are counted from 0."""


class EnclosedPrincipal(NamedTuple):
    """The client that has sent an enclosed request."""

    name: str
    """Type and name: ``TYPE:NAME``."""
    groups: tuple[str, ...]
    """The principals of its groups."""
    is_by_token: bool
    """True if it has logged in by a delegation token."""


def encode_principal(principal: str, *, groups: Sequence[str] = (), is_by_token: bool = False) -> bytes:
    """The bytes of a principal, which is given as ``TYPE:NAME``, as those of its groups are."""
    kind, _, name = principal.partition(":")
    parts = [_VERSION.pack(_ONLY_VERSION)]
    _write_principal(parts.append, DefaultPrincipalData(type_=kind, name=name, token_authenticated=is_by_token))
    data = b"".join(parts)
    if not groups:
        return data
    texts = b"".join(pack_nullable_text(group, flexible=True) for group in groups)
    return data.removesuffix(_NO_TAGS) + pack_tagged_fields([(_GROUPS_TAG, pack_uvarint(len(groups) + 1) + texts)])


def decode_principal(data: Buffer | None) -> EnclosedPrincipal:
    """Return the principal.

    Raises:
        ApiError: PRINCIPAL_DESERIALIZATION_FAILURE.
    """
    failure = ErrorCode.principal_deserialization_failure
    if data is None or len(data) < _VERSION.size or _VERSION.unpack_from(data)[0] != _ONLY_VERSION:
        raise ApiError(failure, "The principal has another form than that of this release.")
    try:
        body = memoryview(data)[_VERSION.size :]
        principal: DefaultPrincipalData = _read_principal(body)
        groups = _read_groups(body)
    except (DecodeError, IndexError, UnicodeDecodeError) as error:
        raise ApiError(failure, f"The principal cannot be read: {error}") from error
    return EnclosedPrincipal(f"{principal.type_}:{principal.name}", groups, principal.token_authenticated)


def _read_groups(body: memoryview) -> tuple[str, ...]:
    """The groups behind a principal's type, name and flag.

    Raises:
        DecodeError: the field is malformed; so are IndexError and UnicodeDecodeError.
    """
    _, position = read_compact_text(body, 0)
    _, position = read_compact_text(body, position)
    tags, position = read_tagged_field_count(body, position + 1)
    for _ in range(tags):
        tag, begin, position = read_tagged_field(body, position)
        if tag == _GROUPS_TAG:
            count, at = read_compact_count(body[:position], begin, 1)
            groups: list[str] = []
            for _ in range(count):
                group, at = read_compact_text(body[:position], at)
                groups.append(group)
            if at != position:
                raise DecodeError("the groups do not have the size that their field says")
            return tuple(groups)
    return ()


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
