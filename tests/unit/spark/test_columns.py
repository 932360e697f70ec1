import datetime as dt

import pyarrow as pa
import pytest

from esp.arrow.decoding import decode
from esp.arrow.errors import Place
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.rows import decoded_columns, make_rows
from esp.records.builder import NewRecord, build_batch
from esp.spark.columns import spark_schema
from esp.spark.options import COLUMNS
from tests.unit.spark.arrow_types import arrow_type

PARTITION = Partition("events", 7)


def decoded(columns: tuple[str, ...], timestamp: int = 1_700_000_000_123) -> pa.RecordBatch:
    records = [NewRecord(b"v", b"k", (("h", b"x"),), timestamp), NewRecord(None, None, (), timestamp)]
    [batch] = decode(build_batch(records, base_offset=5), Place("events", 7), columns=decoded_columns(columns))
    return batch


def test_rows_have_the_columns_and_the_types_that_spark_expects() -> None:
    batch = make_rows(decoded(COLUMNS), PARTITION, COLUMNS)
    expected = [(field.name, arrow_type(field.dataType)) for field in spark_schema(COLUMNS)]
    assert [(field.name, field.type) for field in batch.schema][:5] == expected[:5]
    assert pa.types.is_timestamp(batch.schema.field("timestamp").type)
    time = dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, dt.UTC)
    assert batch.to_pylist() == [
        {
            "key": b"k",
            "value": b"v",
            "topic": "events",
            "partition": 7,
            "offset": 5,
            "timestamp": time,
            "timestampType": 0,
            "headers": [{"key": "h", "value": b"x"}],
        },
        {
            "key": None,
            "value": None,
            "topic": "events",
            "partition": 7,
            "offset": 6,
            "timestamp": time,
            "timestampType": 0,
            "headers": None,
        },
    ]


@pytest.mark.parametrize("columns", [("topic",), ("partition", "value"), ("timestamp", "key"), ("headers",)])
def test_some_columns_come_in_their_order(columns: tuple[str, ...]) -> None:
    batch = make_rows(decoded(columns), PARTITION, columns)
    assert (tuple(batch.schema.names), batch.num_rows) == (columns, 2)


def test_a_timestamp_that_spark_does_not_have_is_an_error() -> None:
    with pytest.raises(ConsumerError, match="partition 7 of topic events: a timestamp is larger than Spark's"):
        make_rows(decoded(("timestamp",), 2**62), PARTITION, ("timestamp",))
