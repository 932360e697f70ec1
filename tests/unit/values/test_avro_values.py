"""Columns of Avro values: what fastavro reads record by record, for all types, and for readers with later schemas."""

import json
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.values.avro_records import NestedDecoder
from esp.values.avro_resolution import plan_flat
from esp.values.avro_schema import parse_avro
from esp.values.avro_values import AvroDecoder, RegisteredDecoder
from esp.values.decoded import Decoded
from esp.values.errors import MissingPackageError, SchemaError
from tests.unit.values.avro_model import encode, expected, flat_records


def binary(data: list[bytes | None]) -> pa.Array:
    return pa.array(data, pa.binary())


def decode(writer: Any, reader: Any, data: list[bytes | None]) -> Decoded:
    """Values of a writer's schema, as columns of a reader's."""
    decoder = RegisteredDecoder(json.dumps(reader), lambda schema_id: json.dumps({7: writer}[schema_id]))
    found = decoder.decode(binary([None if one is None else b"\0\0\0\0\x07" + one for one in data]))
    for column, field in zip(found.columns, decoder.schema, strict=True):
        column.validate(full=True)
        assert column.type == field.type
    return found


def record(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def lists_of(found: Decoded) -> list[list[object]]:
    return [column.to_pylist() for column in found.columns]


@settings(max_examples=50, deadline=None)
@given(flat_records())
def test_flat_records_are_what_fastavro_reads(drawn: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    schema, values = drawn
    data = encode(schema, values)
    assert plan_flat(parse_avro(json.dumps(schema)), parse_avro(json.dumps(schema))) is not None
    found = AvroDecoder(json.dumps(schema)).decode(binary(data))
    assert found.columns == expected(schema, schema, data)
    assert not found.is_bad.any()


@settings(max_examples=50, deadline=None)
@given(flat_records(), st.data())
def test_later_schemas_are_resolved_as_by_fastavro(
    drawn: tuple[dict[str, Any], list[dict[str, Any]]], data: st.DataObject
) -> None:
    writer, values = drawn
    promotions = {"int": ["long", "float", "double"], "long": ["double"], "float": ["double"], "string": ["bytes"]}
    kept = []
    for one in writer["fields"]:
        what = data.draw(st.sampled_from(["keep", "keep", "remove", "promote"]))
        if what == "promote" and isinstance(one["type"], str) and one["type"] in promotions:
            kept.append({**one, "type": data.draw(st.sampled_from(promotions[one["type"]]))})
        elif what != "remove":
            kept.append(one)
    added = data.draw(
        st.lists(
            st.sampled_from(
                [
                    field("a", "int", default=5),
                    field("b", ["null", "string"], default=None),
                    field("c", ["string", "null"], default="x"),
                    field("d", "bytes", default="d"),
                    field("e", {"type": "enum", "name": "G", "symbols": ["P", "Q"]}, default="Q"),
                    field("g", "boolean", default=True),
                    field("h", "double", default=1.5),
                ]
            ),
            min_size=not kept,
            unique_by=lambda one: one["name"],
        )
    )
    reader = record(*data.draw(st.permutations([*kept, *added])))
    try:
        parse_avro(json.dumps(reader))
    except SchemaError:
        return  # the definition of a named type was removed, or stands behind its use
    written = encode(writer, values)
    assert decode(writer, reader, written).columns == expected(writer, reader, written)


NESTED = record(
    field("id", "long"),
    field(
        "place", record(field("x", "int"), field("at", {"type": "long", "logicalType": "timestamp-millis"}), name="P")
    ),
    field("tags", {"type": "array", "items": ["null", "string"]}),
    field("counts", {"type": "map", "values": "int"}),
    field("number", ["int", "long", "null"]),
    field("price", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
    field("more", ["null", {"type": "array", "items": "P"}], default=None),
)


def test_records_with_parts_are_read_by_fastavro() -> None:
    place = {"x": 1, "at": 1_700_000_000_123}
    value = {
        "id": 1,
        "place": place,
        "tags": ["a", None],
        "counts": {"k": 2},
        "number": 2**40,
        "price": Decimal("1.25"),
        "more": [place],
    }
    found = AvroDecoder(json.dumps(NESTED)).decode(
        binary([*encode(NESTED, [value]), None, b"\x02", *encode(NESTED, [value])])
    )
    shown = found.columns[1][0].as_py()
    assert (shown["x"], shown["at"].timestamp()) == (1, 1_700_000_000.123)
    others = [found.columns[number][0].as_py() for number in (0, 2, 3, 4, 5)]
    assert others == [1, ["a", None], [("k", 2)], 2**40, Decimal("1.25")]
    assert found.columns[6][0].as_py() == [shown]
    assert found.is_bad.tolist() == [False, False, True, False]
    assert [column.is_valid().to_pylist() for column in found.columns] == [[True, False, False, True]] * 7


@settings(max_examples=20, deadline=None)
@given(flat_records())
def test_both_decoders_say_the_same(drawn: tuple[dict[str, Any], list[dict[str, Any]]]) -> None:
    schema, values = drawn
    data = binary(encode(schema, values))
    kind = parse_avro(json.dumps(schema))
    assert NestedDecoder(kind, kind).decode(data, 0).columns == AvroDecoder(json.dumps(schema)).decode(data).columns


@settings(max_examples=40, deadline=None)
@given(flat_records(), st.lists(st.binary(max_size=20), min_size=1, max_size=5), st.randoms())
def test_a_bad_record_costs_itself_only(
    drawn: tuple[dict[str, Any], list[dict[str, Any]]], noise: list[bytes], random: Any
) -> None:
    schema, values = drawn
    good = encode(schema, values)
    marked = [(one, True) for one in good] + [(one, False) for one in noise]
    random.shuffle(marked)
    found = AvroDecoder(json.dumps(schema)).decode(binary([one for one, _ in marked]))
    rows = np.flatnonzero([is_good for _, is_good in marked])
    assert not found.is_bad[rows].any()
    assert [column.take(pa.array(rows)) for column in found.columns] == expected(
        schema, schema, [one for one, is_good in marked if is_good]
    )
    for column in found.columns:
        assert column.filter(pa.array(found.is_bad)).null_count == found.is_bad.sum()


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("int", b""),
        ("int", b"\x80"),
        ("int", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("long", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"),
        ("long", b"\xff" * 11),
        ("string", b"\x06ab"),
        ("string", b"\x01"),
        ("string", b"\x02\xff"),
        ("bytes", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("double", b"1234567"),
        (["null", "int"], b"\x04\x02"),
        (["null", "int"], b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x01"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}, b"\x02\x64"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}, b"\x22\x01" + bytes(16)),
    ],
)
def test_what_is_no_value_is_marked(kind: Any, data: bytes) -> None:
    schema = json.dumps(record(field("a", "boolean"), field("b", kind)))
    good = {"double": bytes(8), "string": b"\0", "bytes": b"\0"}.get(str(kind), b"\0" * 4)
    found = AvroDecoder(schema).decode(binary([b"\x01" + good, b"\x01" + data, b"\x01" + good]))
    assert found.is_bad.tolist() == [False, True, False]
    assert found.columns[0].to_pylist() == [True, None, True]


def test_bytes_behind_a_record_are_passed_over_as_by_spark() -> None:
    assert lists_of(AvroDecoder(json.dumps(record(field("a", "int")))).decode(binary([b"\x02more"]))) == [[1]]


def test_writers_of_several_schemas_stand_in_one_batch() -> None:
    old, new = record(field("a", "int")), record(field("a", "long"), field("b", ["null", "string"], default=None))
    decoder = RegisteredDecoder(json.dumps(new), lambda number: json.dumps({1: old, 2: new}[number]))
    values = [
        b"\0\0\0\0\x01\x02",
        b"\0\0\0\0\x02\x04\x02\x02x",
        None,
        b"\0\0\0\0\x01\x06",
        b"\0\0",
        b"\x01\0\0\0\x01\x02",
        b"",
        b"\0\0\0\0\x02\x08\0",
    ]
    found = decoder.decode(binary(values))
    assert lists_of(found) == [[1, 2, None, 3, None, None, None, 4], [None, "x"] + [None] * 6]
    assert found.is_bad.tolist() == [False, False, False, False, True, True, True, False]
    assert lists_of(decoder.decode(binary(values)[3:4])) == [[3], [None]]
    assert lists_of(decoder.decode(binary([]))) == [[], []]


def test_fields_are_found_by_aliases_and_symbols_have_a_default() -> None:
    writer = record(field("old", "string"), field("e", {"type": "enum", "name": "E", "symbols": ["A", "B", "Z"]}))
    reader = record(
        field("e", {"type": "enum", "name": "E", "symbols": ["B", "A", "U"], "default": "U"}),
        field("new", "string", aliases=["old"]),
        name="Other",
    )
    data = encode(writer, [{"old": "x", "e": symbol} for symbol in "ABZ"])
    assert lists_of(decode(writer, reader, data)) == [["A", "B", "U"], ["x", "x", "x"]]
    del reader["fields"][0]["type"]["default"]
    assert decode(writer, reader, data).is_bad.tolist() == [False, False, True]


def test_defaults_of_bytes_are_code_points() -> None:
    added = field("b", "bytes", default="\u00ff\u0000a")
    assert lists_of(decode(record(field("a", "int")), record(field("a", "int"), added), [b"\x02"])) == [
        [1],
        [b"\xff\0a"],
    ]


def test_defaults_may_have_parts() -> None:
    place = {"type": "record", "name": "P", "fields": [field("x", "int"), field("y", "string", default="z")]}
    reader = record(
        field("a", "int"),
        field("b", place, default={"x": 1}),
        field("c", {"type": "array", "items": "int"}, default=[1, 2]),
        field("d", {"type": "map", "values": "double"}, default={"k": 0.5}),
        field("e", ["double", "null"], default="NaN"),
    )
    found = decode(record(field("a", "int")), reader, [b"\x02", b""])
    assert [column.to_pylist()[0] for column in found.columns[:4]] == [1, {"x": 1, "y": "z"}, [1, 2], [("k", 0.5)]]
    assert [column.is_valid().to_pylist() for column in found.columns] == [[True, False]] * 5


def test_units_of_timestamps_are_converted() -> None:
    millis, micros = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
    data = encode(record(field("t", "long")), [{"t": 1_700_000_000_123}])
    as_micros = decode(record(field("t", millis)), record(field("t", micros)), data)
    assert as_micros.columns[0].view(pa.int64()).to_pylist() == [1_700_000_000_123_000]
    as_millis = decode(record(field("t", micros)), record(field("t", millis)), data)
    assert as_millis.columns[0].view(pa.int64()).to_pylist() == [1_700_000_000_123]


def test_a_null_for_a_column_without_nulls_is_bad() -> None:
    found = decode(record(field("a", ["null", "int"])), record(field("a", "int")), [b"\0", b"\x02\x0a"])
    assert (lists_of(found), found.is_bad.tolist()) == ([[None, 5]], [True, False])


def test_a_value_that_is_no_record_is_one_column() -> None:
    decoder = AvroDecoder('"string"')
    assert decoder.schema == pa.schema([("value", pa.string())])
    assert lists_of(decoder.decode(binary([b"\x04hi", None]))) == [["hi", None]]
    listed = AvroDecoder('{"type": "array", "items": "int"}')
    assert lists_of(listed.decode(binary([b"\x02\x02\0"]))) == [[[1]]]


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        (field("a", "string"), field("a", "int"), "the field a is written as string and cannot be read as int"),
        (field("a", "long"), field("a", "int"), "written as long"),
        (field("b", "int"), field("a", "int"), "the field a is not written, and has no default"),
        (
            field("a", {"type": "fixed", "name": "F", "size": 2}),
            field("a", {"type": "fixed", "name": "F", "size": 3}),
            "fixed F",
        ),
        (
            field("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}),
            field("a", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
            r"bytes \(decimal of 4, 1\) and cannot be read as bytes \(decimal of 4, 2\)",
        ),
        (
            field("a", {"type": "array", "items": "string"}),
            field("a", {"type": "array", "items": "int"}),
            "value.a is written as string",
        ),
        (
            field("a", {"type": "map", "values": "int"}),
            field("a", {"type": "array", "items": "int"}),
            "value.a is written as map",
        ),
        (field("b", {"type": "map", "values": "int"}), field("a", "int"), "the field a is not written"),
        (field("b", "int"), field("a", "int", default="x"), "the default 'x' of the field a is no value"),
    ],
)
def test_schemas_that_do_not_fit_are_an_error_with_the_id(
    writer: dict[str, Any], reader: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SchemaError, match=f"schema 7 cannot be read as these columns: .*{problem}"):
        decode(record(writer), record(reader), [b"\0"])


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "it is no JSON"),
        ("5", "5 is no type of Avro"),
        ('"strin"', "the type strin is not known"),
        ('"null"', "null alone"),
        ('["int", "string"]', "a union of int, string is no column"),
        ("[]", "a union is empty"),
        ('{"type": "record", "fields": []}', "has no name"),
        ('{"type": "record", "name": "R"}', "the record R has no fields"),
        ('{"type": "enum", "name": "E"}', "the enum E has no symbols"),
        ('{"type": "fixed", "name": "F"}', "the fixed F has no size"),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "r", "type": ["null", "R"]}]}',
            "the type R contains itself",
        ),
        (
            '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "A", "type": "int"}]}',
            "it names A twice",
        ),
        ('{"type": "bytes", "logicalType": "decimal", "precision": 39}', "a decimal of precision 39"),
    ],
)
def test_what_is_no_schema_is_refused(schema: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        AvroDecoder(schema)


def test_names_are_found_in_their_namespaces() -> None:
    inner = {"type": "fixed", "name": "F", "size": 1}
    schema = record(field("a", inner), field("b", "x.y.F"), field("c", "F"), namespace="x.y")
    assert lists_of(AvroDecoder(json.dumps(schema)).decode(binary([b"abc"]))) == [[b"a"], [b"b"], [b"c"]]


def test_fastavro_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    AvroDecoder(json.dumps(record(field("a", "int"))))
    with pytest.raises(MissingPackageError, match="need the package fastavro"):
        AvroDecoder(json.dumps(NESTED))
