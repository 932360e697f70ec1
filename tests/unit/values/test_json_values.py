"""Columns of JSON values: the fast way and the slow one say the same, and what the module json says; a bad value costs itself only."""

import json
from datetime import UTC, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.values.ddl import parse_ddl
from esp.values.decoded import Decoded
from esp.values.errors import SchemaError
from esp.values.json_records import JsonRecords
from esp.values.json_values import _PIECE, JsonDecoder
from tests.unit.values.json_corpus import BROKEN, GOOD, NAMES, SCHEMA, WITH_MAPS, comparable, members

PLAIN = "flag BOOLEAN, number INT, big BIGINT, real DOUBLE, name STRING, numbers ARRAY<BIGINT>, place STRUCT<x: INT, y: STRING>"


def binary(texts: list[str | bytes | None]) -> pa.Array:
    return pa.array([text.encode() if isinstance(text, str) else text for text in texts], pa.binary())


def rows_of(decoded: Decoded) -> list[tuple[str, ...]]:
    """Rows that can be compared, also where a value is not equal to itself."""
    columns = [*map(comparable, decoded.columns), decoded.is_bad.tolist()]
    return [tuple(map(repr, row)) for row in zip(*columns, strict=True)]


def assert_both_ways(schema: str, values: pa.Array, zone: timezone | ZoneInfo = UTC) -> Decoded:
    arrow = parse_ddl(schema)
    fast = JsonDecoder(arrow, zone).decode(values)
    slow = JsonRecords(arrow, zone).decode(values)
    assert rows_of(fast) == rows_of(slow)
    assert [column.type for column in fast.columns] == arrow.types
    for column in fast.columns:
        column.validate(full=True)
    return fast


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(
        st.one_of(members(NAMES), members(NAMES), members(NAMES), st.sampled_from([*BROKEN, None])), max_size=60
    )
)
def test_the_fast_way_says_what_the_slow_one_says(texts: list[str | None]) -> None:
    assert_both_ways(SCHEMA, binary(texts))


@settings(max_examples=20, deadline=None)
@given(
    texts=st.lists(members(["at", "clock", "day", "places"]), max_size=30),
    zone=st.sampled_from(["Europe/Paris", "America/New_York"]),
)
def test_it_does_so_in_other_time_zones(texts: list[str], zone: str) -> None:
    assert_both_ways(SCHEMA, binary(texts), ZoneInfo(zone))


json_values = st.fixed_dictionaries(
    {},
    optional={
        "flag": st.none() | st.booleans(),
        "number": st.none() | st.integers(-(2**31), 2**31 - 1),
        "big": st.none() | st.integers(-(2**63), 2**63 - 1),
        "real": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "name": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
        "numbers": st.none() | st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
        "place": st.none()
        | st.fixed_dictionaries(
            {},
            optional={"x": st.integers(0, 9), "y": st.text(st.characters(exclude_categories=["Cs"])), "z": st.none()},
        ),
        "other": st.recursive(
            st.none() | st.integers() | st.text(),
            lambda one: st.lists(one) | st.dictionaries(st.text(), one),
            max_leaves=4,
        ),
    },
)


@settings(max_examples=60, deadline=None)
@given(values=st.lists(json_values, max_size=30), escapes=st.booleans())
def test_right_values_are_what_the_module_json_says(values: list[dict[str, object]], escapes: bool) -> None:
    found = JsonDecoder(parse_ddl(PLAIN), UTC).decode(
        binary([json.dumps(value, ensure_ascii=escapes) for value in values])
    )
    assert not found.is_bad.any()
    for name, column in zip(parse_ddl(PLAIN).names, found.columns, strict=True):
        expected = [value.get(name) for value in values]
        if name == "place":
            expected = [None if one is None else {"x": one.get("x"), "y": one.get("y")} for one in expected]
        assert column.to_pylist() == expected


@pytest.mark.parametrize("every", [1, 7, 400, 5000])
def test_a_bad_value_costs_itself_only(every: int) -> None:
    count = 3 * _PIECE + 5
    bad = [
        b"{",
        b'{"number":"x","name":"kept"}',
        b"\xff",
        b'{"number":1.5}',
        b'{"name":"a"}{"name":"b"}',
        b"",
        b'{"price":1}',
    ]
    values = [
        bad[number % len(bad)] if number % every == every - 1 else b'{"number":%d,"name":"n"}' % number
        for number in range(count)
    ]
    found = assert_both_ways("number INT, name STRING", binary(values))
    numbers = found.columns[0].to_pylist()
    assert all(numbers[number] == number for number in range(count) if number % every != every - 1)


def test_values_do_not_run_into_one_another() -> None:
    texts = ['{"name":"}', '{"}', '{"a":{}', '{"b":1}}', '{"name":"x"}{"name":"y"}', "  ", '{"name":"z"}']
    found = assert_both_ways("name STRING", binary(texts))
    assert found.columns[0].to_pylist() == [None, None, None, None, "x", None, "z"]
    assert found.is_bad.tolist() == [True, True, True, False, False, False, False], (
        "what follows an object is not looked at"
    )


def test_parts_of_a_partly_wrong_value_stay() -> None:
    text = '{"id":1,"counts":{"a":1,"b":"x"},"places":{"p":{"x":1,"y":2},"q":{"x":"w","y":"v"}},"raw":"SGk=","lists":{"l":[1,"x"]}}'
    found = assert_both_ways(WITH_MAPS, binary([text, '{"counts":{"a":1,"a":2}}']))
    assert [column[0].as_py() for column in found.columns] == [
        1,
        None,
        [("p", {"x": 1, "y": "2"}), ("q", {"x": None, "y": "v"})],
        b"Hi",
        None,
    ]
    assert found.columns[1][1].as_py() == [("a", 1), ("a", 2)]
    assert found.is_bad.tolist() == [True, False]


def test_bytes_that_are_not_utf_8_are_replaced() -> None:
    found = assert_both_ways("name STRING", pa.array([b'{"name":"a\xffb"}', b'{"name":"c"}'], pa.binary()))
    assert found.columns[0].to_pylist() == ["a\ufffdb", "c"]
    assert not found.is_bad.any()


def test_slices_and_empty_columns_are_decoded() -> None:
    values = binary(['{"number":1}', None, '{"number":3}', "x", '{"number":5}'])
    assert assert_both_ways("number INT", values[2:]).columns[0].to_pylist() == [3, None, 5]
    assert assert_both_ways("number INT", values[:0]).columns[0].to_pylist() == []
    assert assert_both_ways("number INT", values[1:2]).is_bad.tolist() == [False]


def test_all_good_texts_take_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = JsonDecoder(parse_ddl(SCHEMA), UTC)
    monkeypatch.setattr(decoder, "_records", None)
    decoder.decode(
        binary(
            [f'{{"{name}":{value}}}' for name, values in GOOD.items() for value in values] + ['{"other":{"a":[1,"x"]}}']
        )
    )


def test_keys_of_maps_are_texts() -> None:
    with pytest.raises(SchemaError, match="keys of a map are texts"):
        JsonDecoder(parse_ddl("a MAP<INT, INT>"), UTC)
