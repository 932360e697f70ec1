"""Avro values made and read by fastavro, record by record: the model of the columns."""

import io
import json
from typing import Any

import fastavro
import pyarrow as pa
from hypothesis import strategies as st

from esp.values.avro_schema import arrow_schema, parse_avro

FLAT = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1) | st.integers(-100, 100),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=200),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=80),
}
TIMES = st.datetimes()

SPECIAL: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "int", "logicalType": "date"}, st.dates()),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-(2**62), 2**62)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(2**52), 2**52)),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, st.integers(-(2**62), 2**62)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3}, st.decimals(-999, 999, places=3)),
    (
        {"type": "fixed", "name": "D", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 2},
        st.decimals(-(10**17), 10**17, places=2),
    ),
    ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
]
"""Types with names or a logical type, and their values; times are integers, which fastavro takes too."""


def field_types() -> list[tuple[Any, st.SearchStrategy[Any]]]:
    return [*FLAT.items(), *SPECIAL]


@st.composite
def flat_records(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A schema of a record without parts, and some values."""
    known = field_types()
    chosen = draw(st.lists(st.integers(0, len(known) - 1), min_size=1, max_size=8))
    fields, makers, seen = [], {}, set()
    for number, index in enumerate(chosen):
        kind, values = known[index]
        if isinstance(kind, dict) and "name" in kind:
            if index in seen:
                kind = kind["name"]
            seen.add(index)
        shape = draw(st.sampled_from(["plain", "null first", "null last"]))
        name = f"f{number}"
        if shape == "plain":
            fields.append({"name": name, "type": kind})
        else:
            fields.append({"name": name, "type": ["null", kind] if shape == "null first" else [kind, "null"]})
            values = st.none() | values
        makers[name] = values
    schema = {"type": "record", "name": "R", "fields": fields}
    return schema, draw(st.lists(st.fixed_dictionaries(makers), max_size=12))


def encode(schema: Any, values: list[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
    made = []
    for value in values:
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, parsed, value)
        made.append(stream.getvalue())
    return made


def _plain(schema: Any) -> Any:
    """The schema with times as the integers that they are: Python has fewer years."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if isinstance(schema, dict):
        return {
            name: _plain(one) for name, one in schema.items() if not (name == "logicalType" and "timestamp" in str(one))
        }
    return schema


def read(writer: Any, reader: Any, data: bytes) -> Any:
    """One value by fastavro."""
    return fastavro.schemaless_reader(
        io.BytesIO(data),
        fastavro.parse_schema(_plain(json.loads(json.dumps(writer)))),
        fastavro.parse_schema(_plain(json.loads(json.dumps(reader)))),
    )


def expected(writer: Any, reader: Any, data: list[bytes]) -> list[pa.Array]:
    """The columns that fastavro's values are."""
    schema = arrow_schema(parse_avro(json.dumps(reader)))
    rows = [read(writer, reader, one) for one in data]
    columns = []
    for field, described in zip(schema, reader["fields"], strict=True):
        found = [row[field.name] for row in rows]
        if "timestamp-millis" in json.dumps(described):
            found = [None if one is None else one * 1000 for one in found]
        columns.append(pa.array([str(one) if type(one).__name__ == "UUID" else one for one in found], field.type))
    return columns
