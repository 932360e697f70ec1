import io
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.cli.record_lines import LineError, LineParser, split_lines
from esp.model.errors import OperatorError


def parser(**properties):
    return LineParser.from_properties({name.replace("_", "."): value for name, value in properties.items()})


@pytest.mark.parametrize(
    ("properties", "line", "expected"),
    [
        ({}, b"a\tb", (None, b"a\tb", [])),
        ({}, b"", (None, b"", [])),
        ({"parse_key": "true"}, b"k\tv\tw", (b"k", b"v\tw", [])),
        ({"parse_key": "true", "key_separator": "::"}, b"k::v", (b"k", b"v", [])),
        ({"parse_key": "true"}, b"\tv", (b"", b"v", [])),
        ({"parse_headers": "true"}, b"a:1,b:2,a:\tv", (None, b"v", [("a", b"1"), ("b", b"2"), ("a", b"")])),
        ({"parse_headers": "true"}, b"\tv", (None, b"v", [])),
        ({"parse_headers": "true", "parse_key": "true"}, b"h:x:y\tk\tv", (b"k", b"v", [("h", b"x:y")])),
        (
            {
                "parse_headers": "true",
                "headers_delimiter": "|",
                "headers_separator": ";",
                "headers_key_separator": "=",
            },
            b"a=1;b=2|v",
            (None, b"v", [("a", b"1"), ("b", b"2")]),
        ),
        ({"parse_key": "true", "null_marker": "NULL"}, b"NULL\tv", (None, b"v", [])),
        ({"parse_key": "true", "null_marker": "NULL"}, b"k\tNULL", (b"k", None, [])),
        ({"parse_key": "true", "ignore_error": "true"}, b"only value", (None, b"only value", [])),
    ],
)
def test_lines_are_split_as_kafka_s_console_producer_does(properties, line, expected):
    assert parser(**properties).parse(line) == expected


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        ({"parse_key": "true"}, b"no separator"),
        ({"parse_headers": "true"}, b"no delimiter"),
        ({"parse_headers": "true"}, b"no-header-separator\tv"),
    ],
)
def test_a_missing_separator_is_an_error(properties, line):
    with pytest.raises(LineError, match="separator"):
        parser(**properties).parse(line)


@pytest.mark.parametrize("properties", [{"parse.kye": "true"}, {"parse.key": "yes"}, {"key.separator": ""}])
def test_a_wrong_property_is_refused(properties):
    with pytest.raises(OperatorError, match=next(iter(properties))):
        LineParser.from_properties(properties)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=6))
def test_lines_are_the_same_however_the_text_is_cut(text, cuts):
    places = [0, *sorted(cuts), len(text)]
    chunks = [text[start:end] for start, end in itertools.pairwise(places)]
    lines = [line for lines in split_lines(chunks) for line in lines]
    assert lines == [line.rstrip(b"\r\n") for line in io.BytesIO(text)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"\n", [b""]),
        (b"a\r\nb", [b"a", b"b"]),
        (b"a\r\r\n\nb\rc\n", [b"a", b"", b"b\rc"]),
    ],
)
def test_ends_of_lines_are_taken_off(text, lines):
    for size in range(1, 4):
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        assert [line for lines in split_lines(chunks) for line in lines] == lines


@pytest.mark.parametrize("name", ["parse.key", "parse.headers"])
def test_lines_are_plain_unless_something_is_parsed(name):
    assert LineParser.from_properties({}).is_plain
    assert not LineParser.from_properties({name: "true"}).is_plain
    assert not LineParser.from_properties({"null.marker": "NULL"}).is_plain
