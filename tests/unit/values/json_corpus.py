"""JSON values of all kinds, right and wrong, for schemas of all types."""

from typing import Final

import pyarrow as pa
from hypothesis import strategies as st

SCHEMA: Final = (
    "flag BOOLEAN, tiny TINYINT, small SMALLINT, number INT, big BIGINT, single FLOAT, real DOUBLE, price DECIMAL(7,2), name STRING, "
    "day DATE, at TIMESTAMP, clock TIMESTAMP_NTZ, place STRUCT<lat: DOUBLE, name: STRING, days: ARRAY<DATE>>, "
    "numbers ARRAY<INT>, places ARRAY<STRUCT<x: INT, at: TIMESTAMP>>, grid ARRAY<ARRAY<DECIMAL(4,1)>>"
)
WITH_MAPS: Final = (
    "id INT, counts MAP<STRING, INT>, places MAP<STRING, STRUCT<x: INT, y: STRING>>, raw BINARY, "
    "lists MAP<STRING, ARRAY<INT>>"
)

NAMES: Final = [
    column.split()[0] for column in SCHEMA.replace("ARRAY<ARRAY<DECIMAL(4,1)>>", "A").split(", ") if ":" not in column
]

GOOD: Final = {
    "flag": ["true", "false"],
    "tiny": ["0", "-128", "127"],
    "small": ["32767", "-1"],
    "number": ["2147483647", "-0", "12"],
    "big": ["9223372036854775807", "-9223372036854775808"],
    "single": ["0.1", "16777217", "1e3", "-2.5E-3", "3.4028235e38"],
    "real": ["0.1", "5", "1e300", "-0.0", "123456789012345678"],
    "price": ["1", "12345.67", '"99.5"', "1e2", "-0.01"],
    "name": ['"a"', '""', '"\\u00e9\\n\\"\\/"', '"\\ud83d\\ude00"', '"é😀"', '"}\\n{"'],
    "day": ['"2013-01-01"', '"1969-12-31"', '"0001-01-01"'],
    "at": [
        '"2013-01-01T05:00:00Z"',
        '"2013-01-01 05:00:00"',
        '"2013-06-01T05:00:00.123456"',
        '"2013-01-01T05:00:00.5"',
    ],
    "clock": ['"2013-01-01T05:00:00"', '"2013-01-01 05:00:00.25"'],
    "place": ['{"lat":1.5,"name":"x"}', "{}", '{"days":["2013-01-01",null]}', '{"days":[],"other":[{}]}'],
    "numbers": ["[]", "[1,2]", "[null,3]"],
    "places": ["[]", '[{"x":1},null,{"at":"2013-01-01T05:00:00Z"}]'],
    "grid": ["[[1.5],[],null]", "[]", "[[999.9]]"],
}

ODD: Final = [
    "null",
    "true",
    "0",
    "1",
    "-1",
    "1.0",
    "1e2",
    "128",
    "200",
    "255",
    "256",
    "-129",
    "32768",
    "2147483648",
    "9223372036854775808",
    "1e400",
    "-1e400",
    "1e39",
    "0.30000000000000004",
    "100000000000000000000000",
    "99999.995",
    "99999.994",
    "123456",
    "1.005",
    "NaN",
    "Infinity",
    "-Infinity",
    '"NaN"',
    '"Infinity"',
    '"-INF"',
    '"+INF"',
    '""',
    '" "',
    '"x"',
    '"1"',
    '"1,234.5"',
    '"1e1"',
    '"."',
    '"5."',
    '"+5"',
    '"true"',
    '"2013-01-01"',
    '"2013-1-2"',
    '"2013"',
    '"2013-02-30"',
    '"2013-01-01T"',
    '"2013-01-01 junk"',
    '"12345"',
    '"100"',
    '"-5"',
    '"20130101"',
    '"2013-01-01T05"',
    '"2013-01-01T05:06"',
    '"2013-01-01 5:6:7"',
    '"2013-01-01T05:00:00.1234567"',
    '"2013-01-01T05:00:00+01:00"',
    '"2013-01-01T05:00:00 Europe/Paris"',
    '"2013-01-01T05:00:00 UTC+3"',
    '"2013-01-01T05:00:00GMT+01:00"',
    '"2013-01-01T05:00:00."',
    '"2013-01-01T24:00:00"',
    '"2013-01-01T05:00:60"',
    '"2013-03-31T02:30:00"',
    '"2013-10-27T02:30:00"',
    '"0000-01-01"',
    '"-0044-03-15"',
    '"+12013-01-01"',
    '" 2013-01-01T05:00:00 "',
    '"2013-01-01T05:00:00-0830"',
    '"2013-01-01T05:00:00+19:00"',
    '"1500-02-29"',
    "[]",
    "[1]",
    '[1,"x"]',
    "[[1]]",
    "[[1,2],[3.25]]",
    '[["x"]]',
    '[{"x":1},{"x":"y"},2]',
    '[{"x":"z"},{"x":2}]',
    "{}",
    '{"x":1}',
    '{"x":"q","y":5}',
    '{"lat":"q","name":7}',
    '{"lat":1,"days":["x"]}',
    '{"name":{"b":[1,2.50,"c\\u0001"]}}',
    '{"lat":1,"lat":2}',
    '{"a":{"x":1},"b":{"x":"w"}}',
    '{"a":1,"b":"x","c":3}',
    '{"a":[1],"b":["x"],"c":[2]}',
    '"SGVsbG8="',
    '"SGVsbG8"',
    '"!!"',
    "1.50",
    "[1.50,1E10,0.0001]",
    "-0",
    "-0.0",
]

BROKEN: Final = [
    "",
    " ",
    "null",
    "1",
    '"x"',
    "[]",
    '[{"number":1}]',
    "{",
    "}",
    "{}",
    "{}{}",
    '{"number":1',
    '{"number":1}}',
    '{"number":1} x',
    '{"number":1}{"number":2}',
    '{"number":1,}',
    '{"number":01}',
    '{"number":.5}',
    '{"number":1.}',
    '{"number":+1}',
    "{'number':1}",
    "{'name':'it\"s'}",
    "{number:1}",
    '{"number":1,"number":2}',
    '{"number":1,"number":"x"}',
    '{"number":"x","number":2}',
    ' {"number":1} ',
    '\t{"number":1}\n',
    '{"name":"a\nb"}',
    '{"name":"a\tb"}',
    '{"name":"\\x"}',
    '{"name":"\\ud800"}',
    '{"name":"x}',
    '{"Number":1}',
    '{"number":1,"other":tru}',
    '{"number" 1}',
    '{"number":1;"big":2}',
    '{"other":NaN,"number":3}',
    '{"number":3}/* c */',
    '\ufeff{"number":1}',
    '{"number":1\n}',
    '{"":1,"number":4}',
    '{"\\u006eumber":5}',
    "{'a':'b\\'c','number':1}",
    '{"a":"b\\\'c","number":1}',
    "{'a':'\\\\','number':1}",
    "{'a':\"'\",'number':1}",
]


def members(names: list[str]) -> st.SearchStrategy[str]:
    """Texts of objects with some of these members; most of them are of the right types."""
    odd = st.sampled_from([*names, "other"]).flatmap(
        lambda name: st.sampled_from(ODD).map(lambda value: f'"{name}":{value}')
    )
    good = st.sampled_from(names).flatmap(
        lambda name: st.sampled_from(GOOD.get(name, ODD)).map(lambda value: f'"{name}":{value}')
    )
    either = st.one_of(good, good, good, good, odd)
    return st.lists(either, max_size=8, unique_by=lambda text: text.partition(":")[0]).map(
        lambda one: "{" + ",".join(one) + "}"
    )


def comparable(column: pa.Array) -> list[object]:
    """Values as Python's, without those of times, which have fewer years."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64()).to_pylist()
    if pa.types.is_date(kind):
        return column.view(pa.int32()).to_pylist()
    if pa.types.is_list(kind):
        return [None if row is None else comparable(row) for row in (one.values for one in column)]
    if pa.types.is_struct(kind):
        members = [comparable(column.field(number)) for number in range(kind.num_fields)]
        return [
            tuple(row) if valid else None
            for row, valid in zip(zip(*members, strict=True), column.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_floating(kind):
        return [None if value is None else value + 0.0 for value in column.to_pylist()]
    return column.to_pylist()
