"""Hypothesis strategies for instances of kio's message classes, and kio's own reader and writer as oracle."""

import dataclasses
import datetime as dt
import functools
import io
from typing import Any

from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial._introspect import EntityField, EntityTupleField, PrimitiveTupleField, classify_field, is_optional

from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED


def model_version(key: int, version: int, kind: str) -> int:
    """The version of the class that handlers see."""
    return SERVED[key].request_model(version) if kind == "request" else SERVED[key].response_model(version)


MESSAGES = [
    (api.key, version, kind)
    for api in SERVED.values()
    for version in range(api.min_version, api.max_version + 1)
    for kind in ("request", "response")
]
"""Every served message: API key, version, request or response."""


GROUPS = sorted(
    {(key, model, kind) for key, version, kind in MESSAGES for model in [model_version(key, version, kind)]}
)
"""The served messages that share a model class: API key, model version, request or response."""


def message_id(message: Any) -> str:
    """A readable name of an entry of MESSAGES or GROUPS."""
    key, version, kind = message
    return f"{SERVED[key].name}-{version}-{kind}"


@functools.cache
def wire_class(message: Any) -> Any:
    """kio's class of an entry of MESSAGES or GROUPS."""
    key, version, kind = message
    return load_class(SERVED[key], version, kind)


def model_class(message: Any) -> Any:
    """The class that handlers see for an entry of MESSAGES."""
    key, version, kind = message
    return load_class(SERVED[key], model_version(key, version, kind), kind)


@functools.cache
def wire_classes(group: Any) -> tuple[Any, ...]:
    """kio's classes of all versions in a group, oldest first."""
    key, model, kind = group
    return tuple(
        wire_class(message)
        for message in MESSAGES
        if message[0] == key and message[2] == kind and model_version(*message) == model
    )


def _milliseconds(bits: int) -> st.SearchStrategy[dt.timedelta]:
    limit = 2 ** (bits - 1)
    return st.integers(-limit, limit - 1).map(lambda value: dt.timedelta(milliseconds=value))


_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just("long" * 60)
_bytes = st.binary(max_size=20) | st.just(b"b" * 300)

PRIMITIVES = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": _texts,
    "bytes": _bytes,
    "records": _bytes,
    "uuid": st.none() | st.uuids().filter(lambda value: value.int != 0),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": _milliseconds(32),
    "timedelta_i64": _milliseconds(50),  # as far as a timedelta goes
    "datetime_i64": st.integers(0, 2**40).map(
        lambda value: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=value)
    ),
}


@functools.cache
def entities(entity: Any) -> st.SearchStrategy[Any]:
    """Instances of one of kio's classes.

    Made once: what hypothesis finds out about a strategy, it keeps in it, and would find out anew for each example.
    """
    return st.builds(entity, **{field.name: _values(field) for field in dataclasses.fields(entity)})


def _values(field: Any) -> st.SearchStrategy[Any]:
    shape = classify_field(field)
    is_struct = isinstance(shape, EntityField | EntityTupleField)
    values = entities(shape.type_) if is_struct else PRIMITIVES[field.metadata["kafka_type"]]
    if isinstance(shape, EntityTupleField | PrimitiveTupleField):
        values = st.lists(values, max_size=3).map(tuple)
        if isinstance(shape, PrimitiveTupleField) and field.metadata["kafka_type"] == "int32":
            values |= st.just(tuple(range(200)))
    if is_optional(field) and not (isinstance(shape, PrimitiveTupleField) and field.metadata["kafka_type"] == "uuid"):
        values = st.none() | values  # kio calls a tuple of uuids optional when its elements may be None
    if "tag" in field.metadata and field.default is not dataclasses.MISSING:
        # a tag stands for its default by being absent: let that be common
        values = st.just(field.default) | values.filter(lambda value: value is not None)
    return values


def kio_bytes(message: Any) -> bytes:
    """A message as kio writes it."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def kio_read(entity: Any, data: bytes) -> Any:
    """What kio's reader makes of bytes that kio wrote; it must never see any others."""
    value, size = entity_reader(entity)(data, 0)
    assert size == len(data)
    return value


def versions_of(value: Any, group: Any) -> list[Any]:
    """A message of a group's model class as an instance of each version's class that can hold it."""
    return [older for wire in wire_classes(group) if (older := project(value, wire)) is not None]


def project(value: Any, wire: Any) -> Any:
    """An instance of ``wire`` with the values of another version's instance, by name; None if a value is null where ``wire`` has no null.

    The naive model of reading and writing other versions.
    """
    arguments = {}
    for field in dataclasses.fields(wire):
        if not hasattr(value, field.name):
            if field.default is dataclasses.MISSING:
                arguments[field.name] = ABSENT[field.metadata["kafka_type"]]
            continue
        found = getattr(value, field.name)
        shape = classify_field(field)
        if found is None and not is_optional(field):
            return None
        if isinstance(shape, EntityTupleField) and found is not None:
            found = tuple(project(element, shape.type_) for element in found)
            if None in found:
                return None
        elif isinstance(shape, EntityField) and found is not None:
            found = project(found, shape.type_)
        arguments[field.name] = found
    return wire(**arguments)


ABSENT = {"bool": False, "error_code": ErrorCode.none}
"""What stands in fields that the other version lacks and that have no default of their own."""
