from dataclasses import dataclass

import pytest

from esp.settings.setting import Kind, Setting, SettingError, at_least, between, declared_settings, one_of, setting


def some(kind, check=None):
    return Setting("some.name", kind, "doc", check)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Kind.BOOLEAN, " True ", True),
        (Kind.BOOLEAN, "false", False),
        (Kind.INT, " +12 ", 12),
        (Kind.INT, "-2147483648", -(2**31)),
        (Kind.LONG, "9223372036854775807", 2**63 - 1),
        (Kind.SHORT, "-32768", -32768),
        (Kind.DOUBLE, "0.5", 0.5),
        (Kind.DOUBLE, "-.5e-3D", -0.0005),
        (Kind.DOUBLE, "1.", 1.0),
        (Kind.STRING, " text ", "text"),
        (Kind.LIST, "a, b,c", ("a", "b", "c")),
        (Kind.LIST, "", ()),
    ],
)
def test_texts_become_values(kind, text, value):
    assert some(kind).parse(text) == value
    assert some(kind).refusal(text) is None


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        (Kind.BOOLEAN, "yes", "Expected value to be either true or false"),
        (Kind.INT, "2147483648", "Not a number of type INT"),
        (Kind.INT, "1.5", "Not a number of type INT"),
        (Kind.INT, "1_000", "Not a number of type INT"),
        (Kind.INT, "+", "Not a number of type INT"),
        (Kind.LONG, "", "Not a number of type LONG"),
        (Kind.LONG, "٣", "Not a number of type LONG"),
        (Kind.SHORT, "32768", "Not a number of type SHORT"),
        (Kind.DOUBLE, "half", "Not a number of type DOUBLE"),
        (Kind.DOUBLE, "1_000", "Not a number of type DOUBLE"),
        (Kind.DOUBLE, "NaN", "Not a number of type DOUBLE"),
        (Kind.DOUBLE, "Infinity", "Not a number of type DOUBLE"),
        (Kind.DOUBLE, "1e309", "Not a number of type DOUBLE"),
    ],
)
def test_other_texts_are_refused_in_kafka_s_words(kind, text, reason):
    with pytest.raises(SettingError, match=reason):
        some(kind).parse(text)
    assert some(kind).refusal(text) == f"Invalid value {text} for configuration some.name: {reason}"


def test_ranges_include_their_ends():
    number = some(Kind.INT, between(-1, 3))
    assert [number.parse(text) for text in ("-1", "3")] == [-1, 3]
    assert "at least -1" in number.refusal("-2")
    assert "no more than 3" in number.refusal("4")
    assert some(Kind.INT, at_least(5)).refusal("5") is None
    assert "at least 5" in some(Kind.INT, at_least(5)).refusal("4")


def test_a_list_of_words_is_refused_by_the_word_that_is_wrong():
    words = some(Kind.LIST, one_of("a", "b"))
    assert words.parse("b,a") == ("b", "a")
    assert words.refusal("a,x,b") == "Invalid value x for configuration some.name: String must be one of: a, b"


def test_a_field_of_a_dataclass_declares_the_setting_of_its_name():
    @dataclass(frozen=True, slots=True)
    class Declared:
        fetch_max_wait_ms: int = setting(500, Kind.INT, "How long.", at_least(0))
        other: int = 1

    [declared] = declared_settings(Declared)
    assert (declared.name, declared.kind, declared.doc) == ("fetch.max.wait.ms", Kind.INT, "How long.")
    assert declared.refusal("-1") is not None
    assert Declared().fetch_max_wait_ms == 500
