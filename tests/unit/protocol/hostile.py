"""Bad requests made from the schema: what a peer can do wrong to any request of any served API and version.

:func:`mutants` takes a valid message apart into its fields and puts something else into one of them at a time. :func:`requests` does
that to a request's whole frame, header included, for use against a running node. The taking apart goes by kio's own introspection
and primitives, not by the code under test.
"""

import dataclasses
import datetime as dt
import io
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import (
    EntityField,
    EntityTupleField,
    PrimitiveTupleField,
    classify_field,
    get_field_tag,
    is_optional,
)
from kio.serial._serialize import get_writer
from kio.serial.writers import write_unsigned_varint


class Piece(NamedTuple):
    """Consecutive bytes of a message: a whole value, or the length in front of one.

    ``role`` is "value", or the form of a length: "i16", "i32", "uvarint" (of a length or count plus one), "tag count", "tag size".
    """

    role: str
    data: bytes
    path: str


class Mutant(NamedTuple):
    """A message that differs from a valid one. ``is_valid`` says that it must be read as the valid one is."""

    what: str
    data: bytes
    is_valid: bool = False


LENGTHS = {
    "i16": [struct.pack(">h", value) for value in (-2, -1, 2**15 - 1, -(2**15))],
    "i32": [struct.pack(">I", value) for value in (2**32 - 2, 2**32 - 1, 2**31 - 1, 2**31, 2**16)],
    "uvarint": [
        b"\x00",  # null
        b"\xff\x7f",
        b"\xff\xff\xff\xff\x07",  # 2^31-1
        b"\x80\x80\x80\x80\x08",  # 2^31
        b"\xff\xff\xff\xff\x0f",  # 2^32-1
        b"\x81\x80\x80\x80\x10",  # 2^32+1, a one for who looks at 32 bits only
        b"\x80\x80\x80\x80\x80\x00",  # six bytes
        b"\xff" * 10,  # no end
    ],
}
LENGTHS["tag count"] = LENGTHS["tag size"] = LENGTHS["uvarint"][1:]

UNKNOWN_TAG = b"\xbd\x84\x3d\x03abc"
"""Tag 999,997, which no version knows, with three bytes."""


def pieces(entity: Any, path: str = "", extra_tag_in: str | None = None) -> Iterator[Piece]:
    """The pieces of a message, which joined are the message as kio writes it.

    With ``extra_tag_in``, the path of a "tag count", an unknown tagged field is put behind those that are there.
    """
    path = path or type(entity).__name__
    flexible = type(entity).__flexible__
    tagged = []
    for field in dataclasses.fields(entity):
        value = getattr(entity, field.name)
        tag = get_field_tag(field)
        if tag is None:
            yield from _field_pieces(field, value, flexible, is_optional(field), f"{path}.{field.name}", extra_tag_in)
        elif value != get_tagged_field_default(field):
            tagged.append((tag, field, value))
    if not flexible:
        return
    extra = f"{path}.tags" == extra_tag_in
    yield Piece("tag count", _uvarint(len(tagged) + extra), f"{path}.tags")
    for tag, field, value in sorted(tagged, key=lambda item: item[0]):
        content = list(_field_pieces(field, value, flexible, False, f"{path}.{field.name}", extra_tag_in))
        yield Piece("value", _uvarint(tag), f"{path}.{field.name}.tag")
        yield Piece("tag size", _uvarint(sum(len(piece.data) for piece in content)), f"{path}.{field.name}.size")
        yield from content
    if extra:
        yield Piece("value", UNKNOWN_TAG, f"{path}.extra")


def _field_pieces(
    field: Any, value: Any, flexible: bool, nullable: bool, path: str, extra: str | None
) -> Iterator[Piece]:
    shape = classify_field(field)
    if isinstance(shape, EntityTupleField | PrimitiveTupleField):
        yield _length(len(value), flexible, "i32", path) if value is not None else _length(-1, flexible, "i32", path)
        for index, element in enumerate(value or ()):
            yield from _value_pieces(field, shape, element, flexible, False, f"{path}[{index}]", extra)
    else:
        yield from _value_pieces(field, shape, value, flexible, nullable, path, extra)


def _value_pieces(
    field: Any, shape: Any, value: Any, flexible: bool, nullable: bool, path: str, extra: str | None
) -> Iterator[Piece]:
    if isinstance(shape, EntityField | EntityTupleField):
        if nullable:
            yield Piece("value", b"\xff" if value is None else b"\x01", f"{path}.marker")
        if value is not None:
            yield from pieces(value, path, extra)
        return
    kafka_type = field.metadata["kafka_type"]
    if kafka_type in ("string", "bytes", "records"):
        encoded = value.encode() if isinstance(value, str) else value
        length = -1 if encoded is None else len(encoded)
        yield _length(length, flexible, "i16" if kafka_type == "string" else "i32", path)
        yield Piece("value", encoded or b"", path)
        return
    buffer = io.BytesIO()
    get_writer(kafka_type, flexible, kafka_type == "datetime_i64" and nullable)(buffer, value)
    yield Piece("value", buffer.getvalue(), path)


def _length(length: int, flexible: bool, legacy: str, path: str) -> Piece:
    if flexible:
        return Piece("uvarint", _uvarint(length + 1), f"{path}.length")
    return Piece(legacy, struct.pack(">h" if legacy == "i16" else ">i", length), f"{path}.length")


def _uvarint(value: int) -> bytes:
    buffer = io.BytesIO()
    write_unsigned_varint(buffer, value)  # type: ignore[arg-type]
    return buffer.getvalue()


def mutants(message: Any) -> Iterator[Mutant]:
    """Everything that can be wrong with a message, one thing at a time."""
    return _mutants(lambda extra_tag_in: list(pieces(message, extra_tag_in=extra_tag_in)))


def requests(request: Any, correlation_id: int = 1) -> Iterator[Mutant]:
    """Mutants of a request as frames for a socket, each with the right length in front, its header mutated as well.

    Where a request is cut, the length says so: the frame is whole, the request in it is not.
    """

    def take_apart(extra_tag_in: str | None) -> list[Piece]:
        return [*_header_pieces(request, correlation_id, extra_tag_in), *pieces(request, extra_tag_in=extra_tag_in)]

    for mutant in _mutants(take_apart):
        yield mutant._replace(data=struct.pack(">i", len(mutant.data)) + mutant.data)


def _mutants(take_apart: Callable[[str | None], list[Piece]]) -> Iterator[Mutant]:
    parts = take_apart(None)
    whole = b"".join(part.data for part in parts)
    position = 0
    for part in parts:
        before, after = whole[:position], whole[position + len(part.data) :]
        position += len(part.data)
        for wrong in LENGTHS.get(part.role, ()):
            if wrong != part.data:
                yield Mutant(f"{part.path} is {wrong.hex()}", before + wrong + after)
        if part.role == "tag count":
            more = b"".join(piece.data for piece in take_apart(part.path))
            yield Mutant(f"{part.path}: an unknown tag", more, is_valid=True)
    for length in range(len(whole)):
        yield Mutant(f"cut to {length} bytes", whole[:length])
    yield Mutant("a byte after the last field", whole + b"\0", is_valid=True)
    yield Mutant("bytes after the last field", whole + b"\xff" * 100, is_valid=True)


def _header_pieces(request: Any, correlation_id: int, extra_tag_in: str | None) -> Iterator[Piece]:
    yield Piece("value", struct.pack(">hhi", request.__api_key__, request.__version__, correlation_id), "header")
    yield Piece("i16", struct.pack(">h", 4), "header.client_id.length")
    yield Piece("value", b"evil", "header.client_id")
    if request.__header_schema__ is FlexibleHeader:
        extra = extra_tag_in == "header.tags"
        yield Piece("tag count", b"\1" if extra else b"\0", "header.tags")
        if extra:
            yield Piece("value", UNKNOWN_TAG, "header.extra")


def example(entity: Any) -> Any:
    """A message with something in every field: no array empty, nothing null, no tagged field absent."""
    return entity(**{field.name: _example_value(field) for field in dataclasses.fields(entity)})


def texts_changed(message: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Copies of a message, each with the text in one of the places for one, and the names of these places. An array gets one element."""
    for field in dataclasses.fields(message):
        shape = classify_field(field)
        value = getattr(message, field.name)
        if isinstance(shape, EntityField | EntityTupleField):
            is_array = isinstance(shape, EntityTupleField)
            for place, changed in texts_changed(value[0] if is_array else value, text):
                yield (
                    f"{field.name}.{place}",
                    dataclasses.replace(message, **{field.name: (changed,) if is_array else changed}),
                )
        elif field.metadata["kafka_type"] == "string":
            more = (text,) if isinstance(shape, PrimitiveTupleField) else text
            yield field.name, dataclasses.replace(message, **{field.name: more})


EXAMPLES: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "uint32"), 1),
    "float64": 0.5,
    "bool": True,
    "string": "example",
    "bytes": b"example",
    "records": b"example",
    "uuid": uuid.UUID(int=7),
    "error_code": ErrorCode.none,
    "timedelta_i32": dt.timedelta(milliseconds=100),
    "timedelta_i64": dt.timedelta(milliseconds=100),
    "datetime_i64": dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
}


def _example_value(field: Any) -> Any:
    shape = classify_field(field)
    is_struct = isinstance(shape, EntityField | EntityTupleField)
    value = example(shape.type_) if is_struct else EXAMPLES[field.metadata["kafka_type"]]
    return (value, value) if isinstance(shape, EntityTupleField | PrimitiveTupleField) else value
