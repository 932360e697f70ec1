"""The options of values, and what they are refused for."""

import pytest

from esp.options.errors import OptionError
from esp.options.value_options import ValueFormat, ValueOptions, parse_value_options
from esp.spark.options import Kind, parse_options

BASE = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}


def test_values_stay_binary_without_options() -> None:
    assert parse_options(BASE).values == ValueOptions()


def test_options_are_read_for_batches_and_streams() -> None:
    given = {**BASE, "valueformat": " JSON ", "valueschema": "a INT", "MODE": "FailFast", "timezone": "Europe/Paris"}
    expected = ValueOptions(ValueFormat.JSON, "a INT", fails=True, zone="Europe/Paris")
    assert [parse_options(given, kind).values for kind in Kind] == [expected] * 3


def test_the_subject_is_that_of_the_one_topic() -> None:
    given = {"valueFormat": "avro", "schemaRegistry": "http://h:1"}
    assert parse_value_options(given, ("t",)).subject == "t-value"
    assert parse_value_options({**given, "schemaSubject": "s"}, None).subject == "s"
    assert parse_value_options({**given, "valueSchema": '"int"'}, ("t",)).subject is None
    for topics in (None, ("a", "b")):
        with pytest.raises(OptionError, match="option schemaSubject: the values of all topics"):
            parse_value_options(given, topics)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"valueFormat": "xml"}, "option valueFormat=xml: write one of binary, string, json, avro"),
        ({"valueFormat": "json"}, "option valueSchema: valueFormat=json needs it"),
        ({"valueFormat": "avro"}, "option valueSchema: valueFormat=avro needs a schema"),
        (
            {"valueFormat": "json", "valueSchema": "a INT", "mode": "drop"},
            "option mode=drop: write permissive or failfast",
        ),
        ({"mode": "failfast"}, "option mode=failfast: it has an effect with valueFormat=json or avro only"),
        ({"valueFormat": "string", "valueSchema": "a INT"}, "option valueSchema=a INT: it has an effect with"),
        (
            {"valueFormat": "avro", "valueSchema": '"int"', "timeZone": "UTC"},
            "option timeZone=UTC: it has an effect with valueFormat=json only",
        ),
        ({"valueFormat": "avro", "schemaRegistry": "h:1"}, "option schemaRegistry=h:1: it is no URL"),
        ({"valueFormat": "avro", "schemaRegistry": "me:secret@h"}, "option schemaRegistry: it is no URL"),
        (
            {"schemaRegistry": "http://me:secret@h"},
            "option schemaRegistry: it has an effect with valueFormat=avro only",
        ),
        (
            {"valueFormat": "avro", "valueSchema": '"int"', "schemaSubject": "s"},
            "option schemaSubject=s: it has an effect with schemaRegistry",
        ),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_value_options(given, ("t",))
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)
