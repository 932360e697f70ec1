"""Schemas in DDL, and what they are refused for."""

import pyarrow as pa
import pytest

from esp.values.ddl import parse_ddl
from esp.values.errors import SchemaError


def test_all_types_are_known() -> None:
    schema = parse_ddl(
        "a boolean, b TINYINT, c short, d Int, e bigint, f FLOAT, g double, h date, i timestamp, j TIMESTAMP_NTZ, k string, l binary, "
        "m decimal, n DECIMAL(5), o dec(38, 10), p array<int>, q map<string,array<date>>, r struct<x: int, `y z` STRING>"
    )
    assert schema == pa.schema(
        {
            "a": pa.bool_(),
            "b": pa.int8(),
            "c": pa.int16(),
            "d": pa.int32(),
            "e": pa.int64(),
            "f": pa.float32(),
            "g": pa.float64(),
            "h": pa.date32(),
            "i": pa.timestamp("us", tz="UTC"),
            "j": pa.timestamp("us"),
            "k": pa.string(),
            "l": pa.binary(),
            "m": pa.decimal128(10, 0),
            "n": pa.decimal128(5, 0),
            "o": pa.decimal128(38, 10),
            "p": pa.list_(pa.int32()),
            "q": pa.map_(pa.string(), pa.list_(pa.date32())),
            "r": pa.struct([("x", pa.int32()), ("y z", pa.string())]),
        }
    )


def test_constraints_comments_colons_and_one_struct_are_read() -> None:
    plain = parse_ddl("a INT, `b``c` STRING")
    assert parse_ddl("a: INT NOT NULL COMMENT 'it''s', `b``c` STRING COMMENT \"x, y\"".replace("''", "\\'")) == plain
    assert parse_ddl(" STRUCT<a: INT, `b``c`: STRING> ") == plain
    assert parse_ddl("struct INT, not INT NOT NULL").names == ["struct", "not"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "it names no column"),
        ("a", "it ends where a type should be"),
        ("a INTEGR", "the type integr is not known: write one of BOOLEAN"),
        ("a INT b INT", "b stands where a comma should be"),
        ("a INT,", "a column is missing behind the last comma"),
        ("a INT, A STRING", "it names A twice"),
        ("s STRUCT<x: INT, x: INT>", "it names x twice"),
        ("a ARRAY<INT", "its end stands where > should be"),
        ("a ARRAY", "its end stands where < should be"),
        ("a MAP<STRING>", "> stands where , should be"),
        ("a DECIMAL(39,1)", r"decimal\(39,1\): write a precision of 1 to 38"),
        ("a DECIMAL(3,4)", r"decimal\(3,4\)"),
        ("a DECIMAL(x)", "x stands where a number should be"),
        ("flight-no INT", "'-no INT' cannot be read"),
        ("'a' INT", "'a' is no column's name"),
        ("a INT COMMENT b", "COMMENT is not followed by a text"),
        ("STRUCT<a: INT> b", "b stands where it should end"),
    ],
)
def test_what_is_no_schema_is_refused_with_the_place(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        parse_ddl(text)
