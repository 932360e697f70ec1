"""The encoder of all messages but the two hot ones, compiled from the fields of kio's message classes.

The *wire* class says what the bytes are; the values are taken from any object by the names of the fields, so that one object,
normally of the model version's class, is written in every version. A field that the object's class lacks is written with its
default. The bytes are those of kio's own writer, which is the oracle in tests.
"""

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, Final

from esp.model.ids import ZERO_UUID
from esp.protocol.entity_fields import EPOCH, FIXED_FORMATS, Entity, EntityField, entity_fields
from esp.protocol.varint import pack_uvarint

_Append = Callable[[bytes], None]
_Write = Callable[[_Append, Any], None]
"""Appends the encoding of one value: of a field, or of a struct."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


@cache
def compile_writer(wire: type[Entity], model: type[Entity]) -> Callable[[_Append, Any], None]:
    """Return the function that appends the bytes of a message of class ``wire``, given an object with the fields of ``model``."""
    return _entity_writer(wire, model)


@cache
def _entity_writer(wire: type[Entity], model: type[Entity]) -> _Write:
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    fields = entity_fields(wire)
    steps = _steps([field for field in fields if field.tag is None], model_fields, flexible)
    tagged = tuple(
        (
            pack_uvarint(field.tag or 0),
            attrgetter(field.name),
            model_fields[field.name].implied_default(),
            _field_writer(field, model_fields[field.name], flexible),
        )
        for field in sorted((field for field in fields if field.tag is not None), key=lambda field: field.tag or 0)
        if field.name in model_fields
    )

    def write_entity(append: _Append, entity: Any) -> None:
        for step in steps:
            step(append, entity)
        if tagged:
            _write_tagged_fields(append, entity, tagged)
        elif flexible:
            append(b"\0")

    return write_entity


def _write_tagged_fields(
    append: _Append, entity: Any, tagged: Sequence[tuple[bytes, Callable[[Any], Any], object, _Write]]
) -> None:
    """Append the tagged fields whose value is not the default, behind their count."""
    count = 0
    parts: list[bytes] = []
    for tag, get, default, write in tagged:
        value = get(entity)
        if value == default:
            continue
        encoded: list[bytes] = []
        write(encoded.append, value)
        parts += (tag, pack_uvarint(sum(map(len, encoded))), *encoded)
        count += 1
    append(pack_uvarint(count))
    for part in parts:
        append(part)


def _steps(fields: Sequence[EntityField], model_fields: dict[str, EntityField], flexible: bool) -> tuple[_Write, ...]:
    """One step for each run of fields of fixed size that the model has, and one for each other field."""
    steps: list[_Write] = []
    run: list[EntityField] = []
    for field in fields:
        is_known = field.name in model_fields
        if is_known and field.kafka_type in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run))
            run = []
        steps.append(
            _single_step(field.name, _field_writer(field, model_fields[field.name], flexible))
            if is_known
            else _constant_step(field, flexible)
        )
    if run:
        steps.append(_fixed_step(run))
    return tuple(steps)


def _single_step(name: str, write: _Write) -> _Write:
    get = attrgetter(name)

    def step(append: _Append, entity: Any) -> None:
        write(append, get(entity))

    return step


def _constant_step(field: EntityField, flexible: bool) -> _Write:
    """Write the default of a field that the model lacks."""
    parts: list[bytes] = []
    _field_writer(field, field, flexible)(parts.append, field.implied_default())
    constant = b"".join(parts)

    def step(append: _Append, _entity: Any) -> None:
        append(constant)

    return step


def _fixed_step(fields: Sequence[EntityField]) -> _Write:
    """Write a run of fields of fixed size at once."""
    pack = struct.Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in fields)).pack
    converters = tuple(_converter(field) for field in fields)
    if len(fields) == 1:
        return _single_step(fields[0].name, _fixed_writer(fields[0]))
    get = attrgetter(*(field.name for field in fields))

    def step(append: _Append, entity: Any) -> None:
        append(pack(*get(entity)))

    def step_with_conversion(append: _Append, entity: Any) -> None:
        append(
            pack(
                *(
                    value if convert is None else convert(value)
                    for convert, value in zip(converters, get(entity), strict=True)
                )
            )
        )

    return step if all(convert is None for convert in converters) else step_with_conversion


def _field_writer(field: EntityField, model: EntityField, flexible: bool) -> _Write:
    """The writer of one field's value."""
    if field.entity is not None:
        write = _entity_writer(field.entity, model.entity or field.entity)
        if field.is_array:
            return _array_writer(field, write, flexible)
        return _nullable_struct_writer(write) if field.is_nullable else write
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        return _array_writer(field, _field_writer(element, element, flexible), flexible)
    if field.kafka_type in FIXED_FORMATS:
        return _fixed_writer(field)
    return _text_writer(field, flexible) if field.kafka_type == "string" else _bytes_writer(field, flexible)


def _fixed_writer(field: EntityField) -> _Write:
    pack = struct.Struct(">" + FIXED_FORMATS[field.kafka_type or ""]).pack
    convert = _converter(field)

    def write(append: _Append, value: Any) -> None:
        append(pack(value if convert is None else convert(value)))

    return write


def _length_writer(flexible: bool, legacy: struct.Struct) -> Callable[[int], bytes]:
    """What encodes a length or count; -1 is null."""
    pack = legacy.pack
    return (lambda length: pack_uvarint(length + 1)) if flexible else pack


def _array_writer(field: EntityField, write_element: _Write, flexible: bool) -> _Write:
    pack_count = _length_writer(flexible, _I32)
    nullable = field.is_nullable

    def write(append: _Append, values: Sequence[Any] | None) -> None:
        if values is None:
            assert nullable, f"{field.name} cannot be null"
            append(pack_count(-1))
            return
        append(pack_count(len(values)))
        for value in values:
            write_element(append, value)

    return write


def _text_writer(field: EntityField, flexible: bool) -> _Write:
    pack_length = _length_writer(flexible, _I16)
    nullable = field.is_nullable

    def write(append: _Append, value: str | None) -> None:
        if value is None:
            assert nullable, f"{field.name} cannot be null"
            append(pack_length(-1))
            return
        encoded = value.encode()
        append(pack_length(len(encoded)))
        append(encoded)

    return write


def _bytes_writer(field: EntityField, flexible: bool) -> _Write:
    pack_length = _length_writer(flexible, _I32)
    nullable = field.is_nullable

    def write(append: _Append, value: bytes | None) -> None:
        if value is None:
            assert nullable, f"{field.name} cannot be null"
            append(pack_length(-1))
            return
        append(pack_length(len(value)))
        append(value)

    return write


def _nullable_struct_writer(write_struct: _Write) -> _Write:
    """A struct behind a marker byte, -1 for null and else 1 (KIP-893)."""

    def write(append: _Append, value: Any) -> None:
        if value is None:
            append(b"\xff")
            return
        append(b"\x01")
        write_struct(append, value)

    return write


def _converter(field: EntityField) -> Callable[[Any], Any] | None:
    """What turns the field's value into the number or bytes for struct; None where it is that."""
    match field.kafka_type:
        case "uuid":
            return _from_uuid
        case "timedelta_i32" | "timedelta_i64":
            return _from_timedelta
        case "datetime_i64":
            return _from_datetime
        case _:
            return None


def _from_uuid(value: uuid.UUID | None) -> bytes:
    return (ZERO_UUID if value is None else value).bytes


def _from_timedelta(value: dt.timedelta) -> int:
    return value // _MILLISECOND


def _from_datetime(value: dt.datetime | None) -> int:
    return -1 if value is None else (value - EPOCH) // _MILLISECOND
