"""Reading and writing of messages a slice at a time, for messages with very many elements.

The readers and writers here are generators. Their results are the same as with :mod:`esp.protocol.reader` and :mod:`esp.protocol.writer`,
but they yield after each slice (:mod:`esp.protocol.progress`), so that their caller can let other work have its turn.
"""

import struct
from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from esp.model.buffers import Buffer
from esp.protocol.entity_fields import Entity, EntityField, entity_fields
from esp.protocol.progress import SLICE_ELEMENTS, Progress
from esp.protocol.reader import (
    RANGE_READERS,
    ReadStep,
    array_count_reader,
    entity_reader,
    field_reader,
    read_steps,
    read_tagged_fields,
    truncated,
)
from esp.protocol.writer import (
    Append,
    WriteStep,
    array_count_writer,
    entity_writer,
    field_writer,
    tagged_fields_writer,
    write_steps,
)

_SlicedRead = Callable[[Buffer, int, Progress], Generator[None, None, tuple[Any, int]]]
_SlicedWrite = Callable[[Append, Any, Progress], Generator[None]]


@cache
def compile_sliced_reader(wire: type[Entity], model: type[Entity]) -> Callable[[Buffer], Generator[None, None, Any]]:
    """Return the generator function that reads the same as the function of :func:`esp.protocol.reader.compile_reader`.

    It raises DecodeError where that does, and for a message of more than :data:`esp.protocol.progress.ELEMENTS_MAX` elements.
    """
    read_message = _sliced_entity_reader(wire, model)

    def read(body: Buffer) -> Generator[None, None, Any]:
        try:
            message, _ = yield from read_message(body, 0, Progress())
        except (IndexError, struct.error) as error:
            raise truncated(wire) from error
        return message

    return read


@cache
def compile_sliced_writer(wire: type[Entity], model: type[Entity]) -> Callable[[Append, Any], Generator[None]]:
    """Return the generator function that writes the same as the function of :func:`esp.protocol.writer.compile_writer`."""
    write_message = _sliced_entity_writer(wire, model)
    return lambda append, entity: write_message(append, entity, Progress())


@cache
def has_arrays(entity: type[Entity]) -> bool:
    """True if a message or struct has an array in it, at whatever depth."""
    return any(_is_deep(field) for field in entity_fields(entity))


def _is_deep(field: EntityField) -> bool:
    return field.is_array or (field.entity is not None and has_arrays(field.entity))


def _is_sliced(field: EntityField) -> bool:
    """Arrays are; a struct that has some, and may be null, is read at once: no message has large ones there."""
    return field.is_array or (_is_deep(field) and not field.is_nullable)


@cache
def _sliced_entity_reader(wire: type[Entity], model: type[Entity]) -> _SlicedRead:
    wire_fields = entity_fields(wire)
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    untagged = [field for field in wire_fields if field.tag is None]
    names = {field.name for field in untagged}
    defaults = {name: field.implied_default() for name, field in model_fields.items() if name not in names}
    dropped = tuple(field.name for field in wire_fields if field.name not in model_fields)
    plans: list[tuple[str, _SlicedRead | None, Sequence[ReadStep]]] = []
    for sliced, fields in groupby(untagged, _is_sliced):
        if sliced:
            plans += [
                (field.name, _sliced_field_reader(field, model_fields.get(field.name), flexible), ())
                for field in fields
            ]
        else:
            plans.append(("", None, read_steps(list(fields), model_fields, flexible)))
    tagged = {
        field.tag: (field.name, field_reader(field, model_fields.get(field.name), flexible))
        for field in wire_fields
        if field.tag is not None
    }

    def read_entity(buffer: Buffer, position: int, progress: Progress) -> Generator[None, None, tuple[Any, int]]:
        values: dict[str, Any] = defaults.copy()
        for name, read, steps in plans:
            if read is not None:
                values[name], position = yield from read(buffer, position, progress)
            for step in steps:
                position = step(buffer, position, values)
        if flexible:
            position = read_tagged_fields(buffer, position, values, tagged)
        for name in dropped:
            values.pop(name, None)
        return model(**values), position

    return read_entity


def _sliced_field_reader(field: EntityField, model: EntityField | None, flexible: bool) -> _SlicedRead:
    read_deep: _SlicedRead | None = None
    if field.entity is not None:
        model_entity = model.entity if model is not None and model.entity is not None else field.entity
        if model_entity in RANGE_READERS:
            return RANGE_READERS[model_entity]
        if has_arrays(field.entity):
            read_deep = _sliced_entity_reader(field.entity, model_entity)
            if not field.is_array:
                return read_deep
        read_flat = entity_reader(field.entity, model_entity)
    else:
        read_flat = field_reader(field._replace(is_array=False, is_nullable=False), None, flexible)
    read_count = array_count_reader(field, flexible)

    def read(buffer: Buffer, position: int, progress: Progress) -> Generator[None, None, tuple[Any, int]]:
        count, position = read_count(buffer, position)
        if count <= 0:
            return (None if count else ()), position
        progress.take(count)
        elements = []
        for _ in range(count):
            if read_deep is not None:
                element, position = yield from read_deep(buffer, position, progress)
            else:
                element, position = read_flat(buffer, position)
            elements.append(element)
            progress.left -= 1
            if progress.left <= 0:
                progress.left = SLICE_ELEMENTS
                yield
        return tuple(elements), position

    return read


@cache
def _sliced_entity_writer(wire: type[Entity], model: type[Entity]) -> _SlicedWrite:
    fields = [field for field in entity_fields(wire) if field.tag is None]
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    plans: list[tuple[str, _SlicedWrite | None, Sequence[WriteStep]]] = []
    for sliced, group in groupby(fields, lambda field: field.name in model_fields and _is_sliced(field)):
        if sliced:
            plans += [
                (field.name, _sliced_field_writer(field, model_fields[field.name], flexible), ()) for field in group
            ]
        else:
            plans.append(("", None, write_steps(list(group), model_fields, flexible)))
    write_tags = tagged_fields_writer(wire, model)

    def write_entity(append: Append, entity: Any, progress: Progress) -> Generator[None]:
        for name, write, steps in plans:
            if write is not None:
                yield from write(append, getattr(entity, name), progress)
            for step in steps:
                step(append, entity)
        if write_tags is not None:
            write_tags(append, entity)

    return write_entity


def _sliced_field_writer(field: EntityField, model: EntityField, flexible: bool) -> _SlicedWrite:
    write_deep: _SlicedWrite | None = None
    if field.entity is not None and has_arrays(field.entity):
        write_deep = _sliced_entity_writer(field.entity, model.entity or field.entity)
        if not field.is_array:
            return write_deep
    if field.entity is not None:
        write_flat = entity_writer(field.entity, model.entity or field.entity)
    else:
        element = field._replace(is_array=False, is_nullable=False)
        write_flat = field_writer(element, element, flexible)
    write_count = array_count_writer(field, flexible)

    def write(append: Append, values: Sequence[Any] | None, progress: Progress) -> Generator[None]:
        write_count(append, values)
        for value in values or ():
            if write_deep is not None:
                yield from write_deep(append, value, progress)
            else:
                write_flat(append, value)
            progress.left -= 1
            if progress.left <= 0:
                progress.left = SLICE_ELEMENTS
                yield

    return write
