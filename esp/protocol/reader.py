"""The one decoder of bytes that a peer sent, compiled from the fields of kio's message classes.

Every count and length is checked against the bytes left before anything is allocated for it: a count must leave room for as many
elements of the least size, so a message costs memory in proportion to the bytes that were received for it. Unknown tagged
fields are skipped (KIP-482) and bytes after the last field ignored, both as Kafka does.

Kafka's leniency is kept where clients may rest on it (any byte but 0 is true; a struct is null by any negative marker), and not
where it only hides damage: text must be UTF-8, a null length is -1, a tagged field has the size that was said.

A reader knows two classes: the *wire* class says what the bytes are, the *model* class what is built; fields that the wire
version lacks get their defaults, fields that the model lacks are dropped. The values are those of kio's own reader, which is the
oracle in tests, and which itself never sees a peer's bytes: a count of 2^32 makes it abort the process.
"""

import datetime as dt
import struct
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any, Final

from esp.model.buffers import Buffer
from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID
from esp.protocol.acknowledged_ranges import AcknowledgedRange, read_acknowledged_ranges
from esp.protocol.entity_fields import EPOCH, FIXED_FORMATS, Entity, EntityField, entity_fields
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import TEXT_BYTES_MAX, read_tagged_field_count, read_uvarint
from esp.protocol.progress import Progress, SlicedWork, whole

__all__ = [
    "RANGE_READERS",
    "DecodeError",
    "ReadStep",
    "array_count_reader",
    "compile_reader",
    "entity_reader",
    "field_reader",
    "least_size",
    "read_steps",
    "read_tagged_fields",
    "truncated",
]

_Read = Callable[[Buffer, int], tuple[Any, int]]
"""Reads one value at a position; returns it and the position after it. IndexError or struct.error: the bytes end too early."""

ReadStep = Callable[[Buffer, int, dict[str, Any]], int]
"""Reads one or several fields into the dictionary; returns the position after them."""

RANGE_READERS: Final[Mapping[type[Entity], Callable[[Buffer, int, Progress], SlicedWork[tuple[Any, int]]]]] = (
    MappingProxyType({AcknowledgedRange: read_acknowledged_ranges})
)
"""The readers of whole arrays, by the model's class of their elements, where one element may stand for several of the wire's."""

_UNBOUNDED: Final = 2**31 - 1

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


@cache
def compile_reader(wire: type[Entity], model: type[Entity]) -> Callable[[Buffer], Any]:
    """Return the function that reads a message of class ``wire`` and builds an instance of class ``model``.

    That function raises DecodeError, and nothing else, for bytes that are no such message.
    """
    read_message = entity_reader(wire, model)

    def read(body: Buffer) -> Any:
        try:
            return read_message(body, 0)[0]
        except (IndexError, struct.error) as error:
            raise truncated(wire) from error

    return read


def truncated(wire: type[Entity]) -> DecodeError:
    """The error for a message of class ``wire`` in which a reader raises IndexError or struct.error."""
    return DecodeError(f"{wire.__name__}: the message is truncated")


def least_size(wire: type[Entity]) -> int:
    """The number of bytes of the shortest possible encoding of a message or struct."""
    flexible = wire.__flexible__
    return sum(_least_field_size(field, flexible) for field in entity_fields(wire) if field.tag is None) + flexible


def _least_field_size(field: EntityField, flexible: bool) -> int:
    if field.is_array:
        return 1 if flexible else 4
    if field.entity is not None:
        return 1 if field.is_nullable else least_size(field.entity)
    assert field.kafka_type is not None
    if field.kafka_type in FIXED_FORMATS:
        return struct.calcsize(">" + FIXED_FORMATS[field.kafka_type])
    if flexible:
        return 1
    return 2 if field.kafka_type == "string" else 4


@cache
def entity_reader(wire: type[Entity], model: type[Entity]) -> _Read:
    """The reader of one struct; the whole message is one as well."""
    wire_fields = entity_fields(wire)
    model_fields = {field.name: field for field in entity_fields(model)}
    flexible = wire.__flexible__
    untagged = {field.name for field in wire_fields if field.tag is None}
    defaults = {name: field.implied_default() for name, field in model_fields.items() if name not in untagged}
    dropped = tuple(field.name for field in wire_fields if field.name not in model_fields)
    steps = read_steps([field for field in wire_fields if field.tag is None], model_fields, flexible)
    tagged = {
        field.tag: (field.name, field_reader(field, model_fields.get(field.name), flexible))
        for field in wire_fields
        if field.tag is not None
    }

    def read_entity(buffer: Buffer, position: int) -> tuple[Any, int]:
        values: dict[str, Any] = defaults.copy() if defaults else {}
        for step in steps:
            position = step(buffer, position, values)
        if flexible:
            if buffer[position]:
                position = read_tagged_fields(buffer, position, values, tagged)
            else:
                position += 1
        for name in dropped:
            values.pop(name, None)
        return model(**values), position

    return read_entity


def read_tagged_fields(
    buffer: Buffer, position: int, values: dict[str, Any], tagged: Mapping[int, tuple[str, _Read]]
) -> int:
    """Read the known ones of a struct's tagged fields and skip the others; return the position after all."""
    count, position = read_tagged_field_count(buffer, position)
    for _ in range(count):
        tag, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        end = position + size
        if end > len(buffer):
            raise DecodeError(f"tagged field {tag} of {size} bytes with {len(buffer) - position} bytes left")
        known = tagged.get(tag)
        if known is not None:
            name, read = known
            values[name], position = read(buffer, position)
            if position != end:
                raise DecodeError(f"{name}: the tagged field does not have the {size} bytes that it says")
        position = end
    return position


def read_steps(
    fields: Sequence[EntityField], model_fields: dict[str, EntityField], flexible: bool
) -> tuple[ReadStep, ...]:
    """Return the steps that read these fields: one for each run of fields of fixed size, and one for each other field."""
    steps: list[ReadStep] = []
    run: list[EntityField] = []
    for field in fields:
        if field.kafka_type in FIXED_FORMATS and not field.is_array:
            run.append(field)
            continue
        if run:
            steps.append(_fixed_step(run))
            run = []
        steps.append(_single_step(field.name, field_reader(field, model_fields.get(field.name), flexible)))
    if run:
        steps.append(_fixed_step(run))
    return tuple(steps)


def _single_step(name: str, read: _Read) -> ReadStep:
    def step(buffer: Buffer, position: int, values: dict[str, Any]) -> int:
        values[name], position = read(buffer, position)
        return position

    return step


def _fixed_step(fields: Sequence[EntityField]) -> ReadStep:
    """Read a run of fields of fixed size at once."""
    layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.kafka_type or ""] for field in fields))
    unpack = layout.unpack_from
    size = layout.size
    names = tuple(field.name for field in fields)
    converters = tuple((field.name, _converter(field)) for field in fields if _converter(field) is not None)

    if len(names) == 2 and not converters:
        one, other = names

        def step_of_two(buffer: Buffer, position: int, values: dict[str, Any]) -> int:
            values[one], values[other] = unpack(buffer, position)
            return position + size

        return step_of_two

    def step(buffer: Buffer, position: int, values: dict[str, Any]) -> int:
        values.update(zip(names, unpack(buffer, position)))  # noqa: B905 - one value for each name, and `strict` costs
        for name, convert in converters:
            assert convert is not None
            values[name] = convert(values[name])
        return position + size

    return step


def field_reader(field: EntityField, model: EntityField | None, flexible: bool) -> _Read:
    """The reader of one field's value; ``model`` is the model's field of that name, if it has one."""
    if field.entity is not None:
        model_entity = model.entity if model is not None and model.entity is not None else field.entity
        read_ranges = RANGE_READERS.get(model_entity)
        if read_ranges is not None:
            return lambda buffer, position: whole(read_ranges(buffer, position, Progress()))
        read = entity_reader(field.entity, model_entity)
        if field.is_array:
            return _array_reader(field, read, flexible)
        return _nullable_struct_reader(read) if field.is_nullable else read
    assert field.kafka_type is not None
    if field.is_array:
        element = field._replace(is_array=False, is_nullable=False)
        if field.kafka_type in FIXED_FORMATS and _converter(element) is None:
            return _number_array_reader(field, flexible)
        return _array_reader(field, field_reader(element, None, flexible), flexible)
    if field.kafka_type in FIXED_FORMATS:
        return _fixed_reader(field)
    return _text_reader(field, flexible) if field.kafka_type == "string" else _bytes_reader(field, flexible)


def _fixed_reader(field: EntityField) -> _Read:
    layout = struct.Struct(">" + FIXED_FORMATS[field.kafka_type or ""])
    unpack = layout.unpack_from
    size = layout.size
    convert = _converter(field)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        value = unpack(buffer, position)[0]
        return (value if convert is None else convert(value)), position + size

    return read


def _length_reader(
    field: EntityField, flexible: bool, legacy: struct.Struct
) -> Callable[[Buffer, int], tuple[int, int]]:
    """The reader of a length or count: -1 for null if the field may be null, else at least 0."""
    least = -1 if field.is_nullable else 0

    def read_compact(buffer: Buffer, position: int) -> tuple[int, int]:
        length, position = read_uvarint(buffer, position)
        length -= 1
        if length < least:
            raise DecodeError(f"{field.name}: null where none may be")
        return length, position

    def read_legacy(buffer: Buffer, position: int) -> tuple[int, int]:
        length: int = legacy.unpack_from(buffer, position)[0]
        if length < least:
            raise DecodeError(f"{field.name}: a length of {length}")
        return length, position + legacy.size

    return read_compact if flexible else read_legacy


def array_count_reader(field: EntityField, flexible: bool) -> Callable[[Buffer, int], tuple[int, int]]:
    """The reader of an array's count, -1 for null; there are bytes for as many elements."""
    read_count = _length_reader(field, flexible, _I32)
    least_element_size = _least_element_size(field, flexible)
    assert least_element_size > 0

    def read(buffer: Buffer, position: int) -> tuple[int, int]:
        if flexible and 0 < (first := buffer[position]) < 0x80:  # nearly every count, in the place where it stands
            count, position = first - 1, position + 1
        else:
            count, position = read_count(buffer, position)
        if count * least_element_size > len(buffer) - position:
            raise DecodeError(f"{field.name}: a count of {count} with {len(buffer) - position} bytes left")
        return count, position

    return read


def _least_element_size(field: EntityField, flexible: bool) -> int:
    if field.entity is not None:
        return least_size(field.entity)
    return _least_field_size(field._replace(is_array=False, is_nullable=False), flexible)


def _array_reader(field: EntityField, read_element: _Read, flexible: bool) -> _Read:
    read_count = array_count_reader(field, flexible)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        count, position = read_count(buffer, position)
        if count <= 0:
            return (None if count else ()), position
        elements = []
        for _ in range(count):
            element, position = read_element(buffer, position)
            elements.append(element)
        return tuple(elements), position

    return read


def _number_array_reader(field: EntityField, flexible: bool) -> _Read:
    """The reader of an array of numbers, which are taken all at once."""
    read_count = array_count_reader(field, flexible)
    letter = FIXED_FORMATS[field.kafka_type or ""]
    size = struct.calcsize(">" + letter)

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        count, position = read_count(buffer, position)
        if count <= 0:
            return (None if count else ()), position
        return struct.unpack_from(f">{count}{letter}", buffer, position), position + count * size

    return read


def _text_reader(field: EntityField, flexible: bool) -> _Read:
    read_length = _length_reader(field, flexible, _I16)
    most = TEXT_BYTES_MAX if field.is_asked else _UNBOUNDED

    def read(buffer: Buffer, position: int) -> tuple[str | None, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            return None, position
        if length > most:
            raise DecodeError(f"{field.name}: a text of {length} bytes, where {most} is the most")
        end = position + length
        if end > len(buffer):
            raise DecodeError(f"{field.name}: a length of {length} with {len(buffer) - position} bytes left")
        try:
            return str(buffer[position:end], "utf-8"), end
        except UnicodeDecodeError as error:
            raise DecodeError(f"{field.name}: the text is not UTF-8") from error

    return read


def _bytes_reader(field: EntityField, flexible: bool) -> _Read:
    read_length = _length_reader(field, flexible, _I32)

    def read(buffer: Buffer, position: int) -> tuple[bytes | None, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            return None, position
        end = position + length
        if end > len(buffer):
            raise DecodeError(f"{field.name}: a length of {length} with {len(buffer) - position} bytes left")
        return bytes(buffer[position:end]), end

    return read


def _nullable_struct_reader(read_struct: _Read) -> _Read:
    """A struct behind a marker byte, negative for null (KIP-893)."""

    def read(buffer: Buffer, position: int) -> tuple[Any, int]:
        if buffer[position] >= 0x80:
            return None, position + 1
        return read_struct(buffer, position + 1)

    return read


def _converter(field: EntityField) -> Callable[[Any], Any] | None:
    """Return the function from the number or bytes of struct to the field's value; None where they are the value."""
    match field.kafka_type:
        case "bool":
            return bool
        case "uuid":
            return _to_uuid
        case "error_code":
            return _to_error_code
        case "timedelta_i32" | "timedelta_i64":
            return _to_timedelta
        case "datetime_i64":
            return _to_nullable_datetime if field.is_nullable else _to_datetime
        case _:
            return None


@lru_cache(maxsize=1024)
def _to_uuid(value: bytes) -> uuid.UUID | None:
    """Ids come again and again, and the same object is compared at once where equal ones need a call."""
    found = uuid.UUID(bytes=value)
    return None if found == ZERO_UUID else found


def _to_error_code(value: int) -> ErrorCode:
    try:
        return ErrorCode(value)
    except ValueError as error:
        raise DecodeError(f"{value} is no error code") from error


def _to_timedelta(value: int) -> dt.timedelta:
    """A duration; one that Python cannot tell, of millions of years, becomes the longest: clients ask so for "as long as possible"."""
    try:
        return dt.timedelta(milliseconds=value)
    except OverflowError:
        return dt.timedelta.max if value > 0 else dt.timedelta.min


def _to_datetime(value: int) -> dt.datetime:
    try:
        return EPOCH + dt.timedelta(milliseconds=value)
    except OverflowError as error:
        raise DecodeError(f"a timestamp of {value} ms") from error


def _to_nullable_datetime(value: int) -> dt.datetime | None:
    return None if value == -1 else _to_datetime(value)
