"""Requests of any API and version from one table of values, and answers as plain values, by kio alone: an oracle that is not the node's."""

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from esp.protocol.entity_fields import Entity, EntityField, entity_fields
from esp.protocol.registry import ServedApi

Plain = Any
"""None, bool, int, float, str, bytes, UUID, or lists and dicts by field names of these."""

_TIMES: Final = ("timedelta_i32", "timedelta_i64")


def request_of(api: ServedApi, version: int, content: Mapping[str, Any]) -> Any:
    """kio's request of this version with what ``content`` says; fields that the version lacks are left out, others have their defaults.

    Durations are given in milliseconds, structs as mappings.
    """
    stem = "".join("_" + letter.lower() if letter.isupper() else letter for letter in api.name).lstrip("_")
    module = import_module(f"kio.schema.{stem}.v{version}.request")
    return _build(getattr(module, api.name + "Request"), content)


def _build(entity: type[Entity], content: Mapping[str, Any]) -> Any:
    return entity(
        **{
            field.name: _value(field, content[field.name]) if field.name in content else field.implied_default()
            for field in entity_fields(entity)
        }
    )


def _value(field: EntityField, value: Any) -> Any:
    if value is None:
        return None
    if field.is_array:
        return tuple(_element(field, element) for element in value)
    return _element(field, value)


def _element(field: EntityField, value: Any) -> Any:
    if field.entity is not None:
        return _build(field.entity, value)
    return dt.timedelta(milliseconds=value) if field.kafka_type in _TIMES else value


def plain(value: Any) -> Plain:
    """An answer of kio's without its classes."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(element) for element in value]
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bool | uuid.UUID) or value is None:
        return value
    for kind in (int, float, str, bytes):
        if isinstance(value, kind):
            return kind(value)
    raise AssertionError(f"no plain form of {value!r}")
