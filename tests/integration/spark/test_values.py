"""Values as columns through Spark: the same as by Spark's own ``from_json`` and ``from_avro``, in batches, in streams and as functions."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that every PySpark program uses
from pyspark.sql.avro.functions import from_avro as spark_from_avro

from esp.spark import from_avro, from_json
from esp.values.avro_values import AvroDecoder
from esp.values.ddl import parse_ddl
from esp.values.decoded import Decoded
from esp.values.json_values import JsonDecoder
from tests.integration.conftest import MakeTopic
from tests.integration.spark.cluster import START_MS, Cluster, ParquetSink, Record, with_slow_starts
from tests.integration.spark.session import HAS_CONNECTOR
from tests.unit.options.registry_server import TestRegistry, running_registry
from tests.unit.values.avro_model import encode
from tests.unit.values.json_corpus import BROKEN, GOOD, NAMES, ODD, SCHEMA, WITH_MAPS, comparable

SPARK_CORRUPT = "_spark_corrupt"

NOT_ALIKE = ('"x"', '"1"', '"12345"')
"""Texts that are no Base64, for a column of bytes: Spark loses its place in the value, and with it the fields behind."""


@pytest.fixture(params=["UTC", "Europe/Paris"])
def zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """The session's time zone."""
    name = "spark.sql.session.timeZone"
    before = spark.conf.get(name)
    spark.conf.set(name, request.param)
    yield request.param
    spark.conf.set(name, before)


def json_texts(schema: str) -> list[str | None]:
    """Each odd value, and each good one, in each column, and all that is no object."""
    texts: list[str | None] = [*BROKEN, None]
    names = NAMES if schema == SCHEMA else ["id", "counts", "places", "raw", "lists"]
    for name in names:
        other = "number" if name != "number" else "big"
        texts += [
            f'{{"{name}":{value},"{other if schema == SCHEMA else "id"}":7}}'
            for value in [*ODD, *GOOD.get(name, [])]
            if name != "raw" or value not in NOT_ALIKE
        ]
    return texts


@pytest.mark.parametrize("schema", [SCHEMA, WITH_MAPS])
def test_json_means_what_sparks_from_json_means(spark: SparkSession, zone: str, schema: str) -> None:
    texts = json_texts(schema)
    frame = spark.createDataFrame(pa.table({"row": range(len(texts)), "text": texts}))
    options = {"columnNameOfCorruptRecord": SPARK_CORRUPT}
    fields = F.from_json("text", f"{schema}, {SPARK_CORRUPT} STRING", options).alias("fields")
    read = frame.select("row", fields).select("row", "fields.*").toArrow().sort_by("row")
    arrow = parse_ddl(schema)
    found = JsonDecoder(arrow, ZoneInfo(zone)).decode(
        pa.array([None if one is None else one.encode() for one in texts])
    )
    differences = []
    for field, column in zip(arrow, found.columns, strict=True):
        theirs = comparable(read.column(field.name).combine_chunks())
        for text, spark_value, value in zip(texts, theirs, comparable(column), strict=True):
            if repr(spark_value) != repr(value):
                differences.append((text, field.name, spark_value, value))
    assert differences == []
    corrupt = read.column(SPARK_CORRUPT).is_valid().to_pylist()
    assert [text for text, theirs, ours in zip(texts, corrupt, found.is_bad, strict=True) if theirs != ours] == []


FLAT: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "number", "type": ["null", "int"]},
        {"name": "big", "type": "long"},
        {"name": "single", "type": "float"},
        {"name": "real", "type": ["double", "null"]},
        {"name": "name", "type": "string"},
        {"name": "raw", "type": ["null", "bytes"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "millis", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "micros", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "clock", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {
            "name": "total",
            "type": {"type": "fixed", "name": "T", "size": 9, "logicalType": "decimal", "precision": 20, "scale": 3},
        },
        {"name": "mark", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "letter", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    ],
}
NESTED: dict[str, Any] = {
    "type": "record",
    "name": "N",
    "fields": [
        {"name": "id", "type": ["int", "long"]},
        {
            "name": "place",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "P",
                    "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
                },
            ],
        },
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "places", "type": {"type": "array", "items": "P"}},
    ],
}


def flat_values() -> list[dict[str, Any]]:
    return [
        {
            "flag": number % 2 == 0,
            "number": None if number % 3 == 0 else number - 5,
            "big": (-1) ** number * 10 ** (number % 19),
            "single": number / 7,
            "real": None if number % 4 == 0 else number / 3,
            "name": "é" * number,
            "raw": None if number % 5 == 0 else bytes([number]),
            "day": 15_000 + number * 997,
            "millis": 1_357_016_400_123 * (number - 3),
            "micros": None if number % 2 else 1_357_016_400_123_456 + number,
            "clock": 1_357_016_400_123 + number,
            "price": Decimal(number * (-7) ** (number % 6)).scaleb(-2),
            "total": Decimal(number - 10).scaleb(-3),
            "mark": bytes([number, 255]),
            "letter": "AB"[number % 2],
        }
        for number in range(20)
    ]


NESTED_VALUES = [
    {"id": 1, "place": {"at": 1_357_016_400_123}, "tags": ["a", None], "counts": {"k": 1}, "places": [{"at": 0}]},
    {"id": 2**40, "place": None, "tags": [], "counts": {}, "places": []},
]


def plain(schema: Any) -> Any:
    """A schema without logical types, with which values are written as they are stored; decimals excepted."""
    if isinstance(schema, list):
        return [plain(one) for one in schema]
    if isinstance(schema, dict):
        return {name: plain(one) for name, one in schema.items() if name != "logicalType" or one == "decimal"}
    return schema


def rows_of(found: Decoded) -> list[list[object]]:
    return [comparable(column) for column in found.columns]


@pytest.mark.skipif(not HAS_CONNECTOR, reason="this PySpark's Avro module cannot be had")
@pytest.mark.parametrize(("schema", "values"), [(FLAT, flat_values()), (NESTED, NESTED_VALUES)], ids=["flat", "nested"])
def test_avro_means_what_sparks_from_avro_means(
    spark: SparkSession, schema: dict[str, Any], values: list[dict[str, Any]]
) -> None:
    data = encode(plain(schema), values)
    odd = [data[0] + b"more", data[0][:-1], data[1][:3], b"", b"\xff" * 30]
    everything = [*data, *odd, None, *data]
    frame = spark.createDataFrame(pa.table({"row": range(len(everything)), "data": pa.array(everything, pa.binary())}))
    fields = spark_from_avro("data", json.dumps(schema), {"mode": "PERMISSIVE"}).alias("fields")
    read = frame.select("row", fields).select("row", "fields.*").toArrow().sort_by("row")
    found = AvroDecoder(json.dumps(schema)).decode(pa.array(everything, pa.binary()))
    theirs = [comparable(read.column(field["name"]).combine_chunks()) for field in schema["fields"]]
    assert [list(map(repr, column)) for column in rows_of(found)] == [list(map(repr, column)) for column in theirs]
    assert found.is_bad.tolist() == [False] * (len(data) + 1) + [True] * 4 + [False] * (1 + len(data))


TEXTS = ['{"carrier":"UA","delay":2}', '{"carrier":"AA","delay":"late"}', None, '{"carrier":"B6","extra":[1]}', "{"]
COLUMNS = "carrier STRING, delay INT"
EXPECTED = [
    Row(offset=0, carrier="UA", delay=2, _corrupt=None),
    Row(offset=1, carrier="AA", delay=None, _corrupt=bytearray(b'{"carrier":"AA","delay":"late"}')),
    Row(offset=2, carrier=None, delay=None, _corrupt=None),
    Row(offset=3, carrier="B6", delay=None, _corrupt=None),
    Row(offset=4, carrier=None, delay=None, _corrupt=bytearray(b"{")),
]


@pytest.fixture
def json_topic(cluster: Cluster, topic: str, make_topic: MakeTopic) -> str:
    make_topic()
    records = [
        Record(0, b"k", None if text is None else text.encode(), START_MS + number) for number, text in enumerate(TEXTS)
    ]
    cluster.produce(topic, records)
    return topic


def by_offset(frame: DataFrame) -> list[Row]:
    return sorted(with_slow_starts(frame.collect), key=lambda row: row["offset"])


def test_fields_of_json_are_columns_of_batches_and_streams(
    cluster: Cluster, json_topic: str, parquet: ParquetSink
) -> None:
    options = {"subscribe": json_topic, "columns": "offset,value", "valueFormat": "json", "valueSchema": COLUMNS}
    assert by_offset(cluster.read("esp", **options)) == EXPECTED
    parquet_rows = with_slow_starts(
        lambda: parquet.drain(cluster.read_stream("esp", startingOffsets="earliest", **options))
    )
    assert parquet_rows == [5]
    assert by_offset(parquet.rows()) == EXPECTED
    frame = cluster.read("esp", subscribe=json_topic, columns="offset,value", valueFormat="string")
    assert [row["value"] for row in by_offset(frame)] == TEXTS


def test_failfast_names_the_record(cluster: Cluster, json_topic: str) -> None:
    options = {
        "subscribe": json_topic,
        "columns": "value",
        "valueFormat": "json",
        "valueSchema": COLUMNS,
        "mode": "failfast",
    }
    frame = cluster.read("esp", **options)
    assert frame.columns == ["carrier", "delay"]
    with pytest.raises(
        PythonException, match=rf"partition 0 of topic {json_topic}, offset 1: the value b'.*late.*' does not have"
    ):
        frame.collect()


def test_a_schema_that_cannot_be_used_is_named_before_anything_is_read(cluster: Cluster, json_topic: str) -> None:
    with pytest.raises(AnalysisException, match="option valueSchema=a INTEGR: the type integr is not known"):
        cluster.read("esp", subscribe=json_topic, valueFormat="json", valueSchema="a INTEGR")
    with pytest.raises(AnalysisException, match="option valueSchema: its column offset has the name of a record's"):
        cluster.read("esp", subscribe=json_topic, valueFormat="json", valueSchema="offset INT")


def test_the_functions_do_the_same_to_columns_of_kafka(cluster: Cluster, json_topic: str) -> None:
    frame = cluster.read("kafka", subscribe=json_topic, startingOffsets="earliest")
    assert (
        by_offset(frame.select("offset", from_json(F.col("value"), COLUMNS).alias("v")).select("offset", "v.*"))
        == EXPECTED
    )
    texts = frame.select("offset", from_json(F.col("value").cast("string"), COLUMNS, mode="failfast").alias("v"))
    assert by_offset(texts.where("offset = 0").select("offset", "v.*")) == [Row(offset=0, carrier="UA", delay=2)]


@pytest.fixture
def registry() -> Iterator[TestRegistry]:
    with running_registry() as found:
        yield found


def test_values_of_several_writers_are_columns_of_the_newest_schema(
    cluster: Cluster, topic: str, make_topic: MakeTopic, registry: TestRegistry
) -> None:
    make_topic()
    old = {
        "type": "record",
        "name": "Flight",
        "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
    }
    added = {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []}
    new = {**old, "fields": [old["fields"][0], {"name": "delay", "type": "long"}, added]}
    registry.add(old, f"{topic}-value")
    registry.add(new, f"{topic}-value")
    [first] = encode(old, [{"carrier": "UA", "delay": 2}])
    [second] = encode(new, [{"carrier": "AA", "delay": 2**40, "tags": ["late"]}])
    values = [b"\0\0\0\0\1" + first, b"\0\0\0\0\2" + second, b"plain", None]
    cluster.produce(topic, [Record(0, b"k", value, START_MS + number) for number, value in enumerate(values)])
    expected = [
        Row(offset=0, carrier="UA", delay=2, tags=[], _corrupt=None),
        Row(offset=1, carrier="AA", delay=2**40, tags=["late"], _corrupt=None),
        Row(offset=2, carrier=None, delay=None, tags=None, _corrupt=bytearray(b"plain")),
        Row(offset=3, carrier=None, delay=None, tags=None, _corrupt=None),
    ]
    options = {"subscribe": topic, "columns": "offset,value", "valueFormat": "avro", "schemaRegistry": registry.url}
    assert by_offset(cluster.read("esp", **options)) == expected
    narrow = by_offset(cluster.read("esp", valueSchema=json.dumps({**old, "fields": [old["fields"][0]]}), **options))
    assert [row["carrier"] for row in narrow] == ["UA", "AA", None, None]
    frame = cluster.read("kafka", subscribe=topic, startingOffsets="earliest")
    column = from_avro(F.col("value"), registry=registry.url, subject=f"{topic}-value")
    assert by_offset(frame.select("offset", column.alias("v")).select("offset", "v.*")) == expected
