"""Requests that name very many things, made from the schema: one array of one request long, everything else short."""

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Any

from kio.index import load_request_schema
from kio.serial._introspect import EntityTupleField, PrimitiveTupleField, classify_field

from esp.protocol.registry import ApiKey
from tests.unit.protocol.hostile import example


def long_requests(api_key: ApiKey, version: int, count: int) -> Iterator[Any]:
    """A request for each array that an API's requests have at whatever depth, with ``count`` different elements in it."""
    return _with_long_array(_short(example(load_request_schema(api_key, version))), count)


def _with_long_array(entity: Any, count: int) -> Iterator[Any]:
    for field in dataclasses.fields(entity):
        shape, value = classify_field(field), getattr(entity, field.name)
        if isinstance(shape, EntityTupleField | PrimitiveTupleField) and value:
            elements = tuple(_different(value[0], number) for number in range(count))
            yield dataclasses.replace(entity, **{field.name: elements})
            if isinstance(shape, EntityTupleField):
                for inner in _with_long_array(value[0], count):
                    yield dataclasses.replace(entity, **{field.name: (inner,)})


def _short(entity: Any) -> Any:
    """The same with one element in each array, and nothing asked for that lasts: creates no topic, say."""
    changes: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        shape, value = classify_field(field), getattr(entity, field.name)
        if isinstance(shape, EntityTupleField):
            changes[field.name] = (_short(value[0]),)
        elif isinstance(shape, PrimitiveTupleField):
            changes[field.name] = value[:1]
        elif dataclasses.is_dataclass(value):
            changes[field.name] = _short(value)
        elif isinstance(value, bool):
            changes[field.name] = False
    return dataclasses.replace(entity, **changes)


def _different(value: Any, number: int) -> Any:
    """An element that is not the one of another number, as far as it has a name or a number of its own."""
    if isinstance(value, str):
        return f"example-{number}"
    if isinstance(value, uuid.UUID):
        return uuid.UUID(int=1000 + number)
    if isinstance(value, int) and not isinstance(value, bool):
        return number % 128  # fits every type
    if not dataclasses.is_dataclass(value):
        return value
    names = {
        field.name: _different(getattr(value, field.name), number)
        for field in dataclasses.fields(value)
        if isinstance(getattr(value, field.name), str | uuid.UUID)
    }
    return dataclasses.replace(value, **names)  # type: ignore[type-var]  # a class is none here
