"""The columns that stand for values, and the rows that have them."""

import io
import json

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from esp.arrow.decoding import decode
from esp.arrow.errors import Place
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.options.rows import decoded_columns, make_rows
from esp.options.value_columns import open_values
from esp.options.value_options import ValueFormat, ValueOptions
from esp.records.builder import NewRecord, build_batch
from esp.spark.columns import spark_schema
from esp.spark.source import DefaultSource
from esp.spark.value_types import spark_type
from esp.values.ddl import parse_ddl
from tests.unit.options.registry_server import running_registry
from tests.unit.spark.arrow_types import arrow_type

PARTITION = Partition("events", 7)
JSON = ValueOptions(ValueFormat.JSON, "a INT, b STRING")
VALUES = [b'{"a":1,"b":"x"}', None, b'{"a":"?","b":"y"}', b"\xff"]


def decoded(columns: tuple[str, ...], values: list[bytes | None]) -> pa.RecordBatch:
    records = [NewRecord(value, b"k", (), 1_700_000_000_000) for value in values]
    [batch] = decode(build_batch(records, base_offset=5), Place("events", 7), columns=decoded_columns(columns))
    return batch


def test_binary_values_stay_as_they_are() -> None:
    assert open_values(ValueOptions()) is None


def test_fields_stand_where_the_value_would() -> None:
    values = open_values(JSON)
    columns = ("offset", "value", "key")
    assert spark_schema(columns, values).names == ["offset", "a", "b", "_corrupt", "key"]
    assert make_rows(decoded(columns, VALUES), PARTITION, columns, values).to_pydict() == {
        "offset": [5, 6, 7, 8],
        "a": [1, None, None, None],
        "b": ["x", None, "y", None],
        "_corrupt": [None, None, VALUES[2], VALUES[3]],
        "key": [b"k"] * 4,
    }


def test_failfast_names_the_place_and_the_value() -> None:
    values = open_values(ValueOptions(ValueFormat.JSON, "a INT, b STRING", fails=True))
    assert spark_schema(("value",), values).names == ["a", "b"]
    good = decoded(("value", "offset"), VALUES[:2])
    assert make_rows(good, PARTITION, ("value",), values).to_pydict() == {"a": [1, None], "b": ["x", None]}
    with pytest.raises(
        ConsumerError, match=r"partition 7 of topic events, offset 7: the value b'.*y.*' does not have the schema"
    ):
        make_rows(decoded(("value", "offset"), VALUES), PARTITION, ("value",), values)


def test_texts_are_one_column() -> None:
    values = open_values(ValueOptions(ValueFormat.STRING))
    assert make_rows(decoded(("value",), VALUES), PARTITION, ("value",), values).to_pydict() == {
        "value": [VALUES[0].decode(), None, VALUES[2].decode(), "\ufffd"]
    }


def test_a_field_with_the_name_of_a_column_is_refused_where_both_are_wanted() -> None:
    values = open_values(ValueOptions(ValueFormat.JSON, "Timestamp TIMESTAMP"))
    with pytest.raises(
        OptionError, match="its column timestamp has the name of a record's: leave that one out by columns"
    ):
        spark_schema(("value", "timestamp"), values)
    assert spark_schema(("value", "offset"), values).names == ["Timestamp", "_corrupt", "offset"]


def test_types_are_those_of_spark() -> None:
    schema = parse_ddl(
        "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DATE, i TIMESTAMP, j TIMESTAMP_NTZ, k STRING, l BINARY, "
        "m DECIMAL(9,2), n ARRAY<STRUCT<x: INT>>, o MAP<STRING, DATE>"
    )
    for field in schema:
        assert arrow_type(spark_type(field.type)) == field.type or field.name in "no"
    assert spark_type(schema.field("o").type).simpleString() == "map<string,date>"
    assert spark_type(schema.field("n").type).simpleString() == "array<struct<x:int>>"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (ValueOptions(ValueFormat.JSON, "a INTEGR"), "option valueSchema=a INTEGR: the type integr is not known"),
        (ValueOptions(ValueFormat.JSON, "a INT", zone="Mars"), "option timeZone=Mars: it is no time zone"),
        (ValueOptions(ValueFormat.AVRO, '"strin"'), 'option valueSchema="strin": the type strin is not known'),
    ],
)
def test_schemas_that_cannot_be_used_are_named(options: ValueOptions, problem: str) -> None:
    with pytest.raises(OptionError) as caught:
        open_values(options)
    assert str(caught.value).startswith(problem)


def test_the_newest_schema_is_asked_for_once_and_kept() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {"type": "record", "name": "R", "fields": [*old["fields"], {"name": "b", "type": "string", "default": "?"}]}
    with running_registry() as registry:
        registry.add(old, "t-value")
        newest = registry.add(new, "t-value")
        source = DefaultSource(
            {
                "kafka.bootstrap.servers": "h:1",
                "subscribe": "t",
                "valueformat": "avro",
                "schemaregistry": registry.url,
                "columns": "value",
            }
        )
        schema = source.schema()
        assert isinstance(schema, StructType)
        assert schema.names == ["a", "b", "_corrupt"]
        registry.add(old, "t-value")
        assert source.reader(schema)._options.values.schema == json.dumps(new)
        assert source.schema() == schema
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(new), {"a": 2, "b": "x"})
        values = open_values(source.streamReader(schema)._options.values)
        assert values is not None
        data = pa.array([b"\0\0\0\0\x01\x02", b"\0" + newest.to_bytes(4, "big") + stream.getvalue()], pa.binary())
        assert [column.to_pylist() for column in values.make(data)] == [[1, 2], ["?", "x"], [None, None]]
