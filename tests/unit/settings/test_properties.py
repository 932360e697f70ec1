import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.settings.properties import Property, parse_properties


def pairs(text):
    return [(entry.name, entry.value) for entry in parse_properties(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", [("a", "1")]),
        ("a = 1", [("a", "1")]),
        ("a: 1", [("a", "1")]),
        ("a 1", [("a", "1")]),
        ("a\t=\t1 ", [("a", "1 ")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a==b", [("a", "=b")]),
        ("a=b=c:d", [("a", "b=c:d")]),
        ("  \t a=1", [("a", "1")]),
        ("# a=1\n! b=2\n   # c=3\n\n d=4", [("d", "4")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1,\\\n   2,\\\n\t3\nb=4", [("a", "1,2,3"), ("b", "4")]),
        ("a=1\\\\\nb=2", [("a", "1\\"), ("b", "2")]),
        ("a=1\\", [("a", "1")]),
        ("a=1\\\n# no comment inside an entry", [("a", "1# no comment inside an entry")]),
        ("a\\ b\\=c\\:d=1", [("a b=c:d", "1")]),
        ("a=\\t\\n\\r\\f\\q\\\\", [("a", "\t\n\r\fq\\")]),
        ("a=\\u00e4\\u20AC", [("a", "ä€")]),
        ("a=\\ud83d\\ude00", [("a", "😀")]),
        ("a=1\na=2", [("a", "1"), ("a", "2")]),
        ("listeners=PLAINTEXT://:9092,CONTROLLER://:9093", [("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093")]),
    ],
)
def test_the_syntax_of_java_is_read(text, expected):
    assert pairs(text) == expected


def test_an_entry_names_its_first_line():
    assert parse_properties("\n# comment\na=1,\\\n2\nb=3") == [Property("a", "1,2", 3), Property("b", "3", 5)]


@pytest.mark.parametrize("text", ["a=1\nb=\\u12", "a=1\nb=\\u12g4"])
def test_a_broken_escape_names_its_line(text):
    with pytest.raises(ValueError, match="line 2"):
        parse_properties(text)


def escaped(text):
    return "".join(f"\\u{ord(character):04x}" for character in text)


plain = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=20)


@given(st.lists(st.tuples(plain.filter(bool), plain)))
def test_any_entry_can_be_written_by_escapes(entries):
    text = "\n".join(f"{escaped(name)}={escaped(value)}" for name, value in entries)
    assert pairs(text) == entries


@given(st.text(alphabet="ab=: \\\n#!u0\t", max_size=40))
def test_no_text_raises_anything_but_value_error(text):
    try:
        parse_properties(text)
    except ValueError as error:
        assert "line" in str(error)  # noqa: PT017 - not every text is refused
