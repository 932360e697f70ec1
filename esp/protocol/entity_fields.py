"""The fields of kio's message classes, in the form from which reader and writer are compiled."""

import dataclasses
import datetime as dt
import types
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Protocol, Union, get_args, get_origin

from esp.model.errors import ErrorCode


class Entity(Protocol):
    """A message class of kio's, or the class of a struct within one: a frozen dataclass per version of an API."""

    __flexible__: ClassVar[bool]
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]


NO_DEFAULT: Final = dataclasses.MISSING

FIXED_FORMATS: Final = {
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float64": "d",
    "uuid": "16s",
    "bool": "b",
    "error_code": "h",
    "timedelta_i32": "i",
    "timedelta_i64": "q",
    "datetime_i64": "q",
}
"""The types that always take the same number of bytes, as formats of struct."""

EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_IMPLICIT_DEFAULTS: Final[Mapping[str, object]] = types.MappingProxyType(
    {
        **dict.fromkeys(("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"), 0),
        "float64": 0.0,
        "bool": False,
        "string": "",
        "bytes": b"",
        "records": b"",
        "uuid": None,
        "error_code": ErrorCode.none,
        "timedelta_i32": dt.timedelta(0),
        "timedelta_i64": dt.timedelta(0),
        "datetime_i64": EPOCH,
    }
)


class EntityField(NamedTuple):
    """A field of a message class.

    Exactly one of ``kafka_type`` and ``entity`` is set: the type of a primitive, or the class of a struct; ``is_array`` says that the
    field holds a tuple of such values. ``is_nullable`` is about the whole field, never about an array's elements.
    """

    name: str
    kafka_type: str | None
    entity: type[Entity] | None
    is_array: bool
    is_nullable: bool
    tag: int | None
    default: object
    """The schema's default, or ``NO_DEFAULT``."""
    is_asked: bool = False
    """True if a peer asks with it: its class is not of an answer."""

    def implied_default(self) -> object:
        """The value of the field where a version does not have it: its default, or None or empty, or the zero of its type."""
        if self.default is not NO_DEFAULT:
            return self.default
        if self.is_nullable:
            return None
        if self.is_array:
            return ()
        if self.entity is not None:
            return self.entity(**{field.name: field.implied_default() for field in entity_fields(self.entity)})
        assert self.kafka_type is not None
        return _IMPLICIT_DEFAULTS[self.kafka_type]


def entity_fields(entity: type[Entity]) -> tuple[EntityField, ...]:
    """The fields of a message class in the order in which they are written; tagged ones are written after all others."""
    is_asked = not (entity.__module__.endswith(".response") or entity.__name__.endswith("Response"))
    return tuple(_entity_field(field, is_asked=is_asked) for field in dataclasses.fields(entity))


def _entity_field(field: "dataclasses.Field[Any]", *, is_asked: bool) -> EntityField:
    field_type, is_nullable = _without_none(field.type)
    is_array = get_origin(field_type) is tuple
    if is_array:
        field_type = get_args(field_type)[0]
    is_entity = dataclasses.is_dataclass(field_type)
    kafka_type = None if is_entity else field.metadata["kafka_type"]
    assert not isinstance(field_type, str)
    return EntityField(
        field.name,
        kafka_type,
        field_type if is_entity else None,
        is_array,
        # kio writes "no uuid" as the zero uuid: the annotation's None is a value, not a null on the wire.
        is_nullable and kafka_type != "uuid",
        field.metadata.get("tag"),
        field.default,
        is_asked,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    """An annotation without its ``| None``, and whether it had one."""
    if get_origin(annotation) not in (types.UnionType, Union):
        return annotation, False
    others = [argument for argument in get_args(annotation) if argument is not types.NoneType]
    assert len(others) == 1
    return others[0], True
