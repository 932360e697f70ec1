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
from esp.protocol.errors import UnwritableError
from esp.protocol.primitives import pack_uvarint

Append = Callable[[bytes], None]
WriteStep = Callable[[Append, Any], None]
"""Appends the encoding of one value: of a field, or of a struct."""

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_MILLISECOND: Final = dt.timedelta(milliseconds=1)


@cache
def compile_writer(wire: type[Entity], model: type[Entity]) -> Callable[[Append, Any], None]:
    """Return the function that appends the bytes of a message of class ``wire``, given an object with the fields of ``model``.

    It raises :class:`~esp.protocol.errors.UnwritableError` for a text that is too long for the version.
    """
    return entity_writer(wire, model)


@cache
def entity_writer(wire: type[Entity], model: type[Entity]) -> WriteStep:
    """The writer of one struct; the whole message is one as well."""
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    steps = write_steps([field for field in entity_fields(wire) if field.tag is None], model_fields, flexible)
    write_tags = tagged_fields_writer(wire, model)

    def write_entity(append: Append, entity: Any) -> None:
        for step in steps:
            step(append, entity)
        if write_tags is not None:
            write_tags(append, entity)

    return write_entity


def tagged_fields_writer(wire: type[Entity], model: type[Entity]) -> WriteStep | None:
    """Return the function that writes the end of a struct; None if nothing stands there."""
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    tagged = tuple(
        (
            pack_uvarint(field.tag or 0),
            attrgetter(field.name),
            model_fields[field.name].implied_default(),
            field_writer(field, model_fields[field.name], flexible),
        )
        for field in sorted(
            (field for field in entity_fields(wire) if field.tag is not None), key=lambda field: field.tag or 0
        )
        if field.name in model_fields
    )
    if tagged:
        return lambda append, entity: _write_tagged_fields(append, entity, tagged)
    return _write_no_tagged_fields if flexible else None


def _write_no_tagged_fields(append: Append, _entity: Any) -> None:
    append(b"\0")


def _write_tagged_fields(
    append: Append, entity: Any, tagged: Sequence[tuple[bytes, Callable[[Any], Any], object, WriteStep]]
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


def write_steps(
    fields: Sequence[EntityField], model_fields: dict[str, EntityField], flexible: bool
) -> tuple[WriteStep, ...]:
    """Return the steps that write these fields: one for each run of fields of fixed size that the model has, one for each other field."""
    steps: list[WriteStep] = []
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
            _single_step(field.name, field_writer(field, model_fields[field.name], flexible))
            if is_known
            else _constant_step(field, flexible)
        )
    if run:
        steps.append(_fixed_step(run))
    return tuple(steps)


def _single_step(name: str, write: WriteStep) -> WriteStep:
    get = attrgetter(name)

    def step(append: Append, entity: Any) -> None:
        write(append, get(entity))

    return step


def _constant_step(field: EntityField, flexible: bool) -> WriteStep:
    """Write the default of a field that the model lacks."""
    parts: list[bytes] = []
    field_writer(field, field, flexible)(parts.append, field.implied_default())
    constant = b"".join(parts)

    def step(append: Append, _entity: Any) -> None:
        append(constant)

    return step


def _fixed_step(fields: Sequence[EntityField]) -> WriteStep:
    """Write a run of fields of fixed size at once."""
    pack = struct.Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in fields)).pack
    converters = tuple(_converter(field) for field in fields)
    if len(fields) == 1:
        return _single_step(fields[0].name, _fixed_writer(fields[0]))
    get = attrgetter(*(field.name for field in fields))

    def step(append: Append, entity: Any) -> None:
        append(pack(*get(entity)))

    def step_with_conversion(append: Append, entity: Any) -> None:
        append(
            pack(
                *(
                    value if convert is None else convert(value)
                    for convert, value in zip(converters, get(entity), strict=True)
                )
            )
        )

    return step if all(convert is None for convert in converters) else step_with_conversion


def field_writer(field: EntityField, model: EntityField, flexible: bool) -> WriteStep:
    """The writer of one field's value."""
    if field.entity is not None:
        write = entity_writer(field.entity, model.entity or field.entity)
        if field.is_array:
            return _array_writer(field, write, flexible)
        return _nullable_struct_writer(write) if field.is_nullable else write
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        return _array_writer(field, field_writer(element, element, flexible), flexible)
    if field.kafka_type in FIXED_FORMATS:
        return _fixed_writer(field)
    return _text_writer(field, flexible) if field.kafka_type == "string" else _bytes_writer(field, flexible)


def _fixed_writer(field: EntityField) -> WriteStep:
    pack = struct.Struct(">" + FIXED_FORMATS[field.kafka_type or ""]).pack
    convert = _converter(field)

    def write(append: Append, value: Any) -> None:
        append(pack(value if convert is None else convert(value)))

    return write


def _length_writer(flexible: bool, legacy: struct.Struct) -> Callable[[int], bytes]:
    """Return the encoder of a length or count; -1 is null."""
    pack = legacy.pack
    return (lambda length: pack_uvarint(length + 1)) if flexible else pack


def array_count_writer(field: EntityField, flexible: bool) -> Callable[[Append, Sequence[Any] | None], None]:
    """Return the function that writes the count in front of an array's elements."""
    pack_count = _length_writer(flexible, _I32)
    nullable = field.is_nullable

    def write(append: Append, values: Sequence[Any] | None) -> None:
        assert nullable or values is not None, f"{field.name} cannot be null"
        append(pack_count(-1 if values is None else len(values)))

    return write


def _array_writer(field: EntityField, write_element: WriteStep, flexible: bool) -> WriteStep:
    write_count = array_count_writer(field, flexible)

    def write(append: Append, values: Sequence[Any] | None) -> None:
        write_count(append, values)
        for value in values or ():
            write_element(append, value)

    return write


def _text_writer(field: EntityField, flexible: bool) -> WriteStep:
    pack_length = _length_writer(flexible, _I16)
    nullable = field.is_nullable

    def write(append: Append, value: str | None) -> None:
        if value is None:
            assert nullable, f"{field.name} cannot be null"
            append(pack_length(-1))
            return
        encoded = value.encode()
        try:
            append(pack_length(len(encoded)))
        except struct.error as error:
            text = f"{field.name} has {len(encoded)} bytes"
            raise UnwritableError(f"{text}, for which the version of the message has no room") from error
        append(encoded)

    return write


def _bytes_writer(field: EntityField, flexible: bool) -> WriteStep:
    pack_length = _length_writer(flexible, _I32)
    nullable = field.is_nullable

    def write(append: Append, value: bytes | None) -> None:
        if value is None:
            assert nullable, f"{field.name} cannot be null"
            append(pack_length(-1))
            return
        append(pack_length(len(value)))
        append(value)

    return write


def _nullable_struct_writer(write_struct: WriteStep) -> WriteStep:
    """A struct behind a marker byte, -1 for null and else 1 (KIP-893)."""

    def write(append: Append, value: Any) -> None:
        if value is None:
            append(b"\xff")
            return
        append(b"\x01")
        write_struct(append, value)

    return write


def _converter(field: EntityField) -> Callable[[Any], Any] | None:
    """Return the function from the field's value to the number or bytes for struct; None where the value is that."""
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
