"""Decoded batches as Spark wants them: the columns of its Kafka source, with its types."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from esp.arrow.columns import HEADERS_TYPE
from esp.arrow.decoding import COLUMNS as DECODED
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition

_TYPES: Final[dict[str, tuple[DataType, pa.DataType]]] = {
    "key": (BinaryType(), pa.binary()),
    "value": (BinaryType(), pa.binary()),
    "topic": (StringType(), pa.string()),
    "partition": (IntegerType(), pa.int32()),
    "offset": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", tz="UTC")),
    "timestampType": (IntegerType(), pa.int32()),
    "headers": (
        ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
        HEADERS_TYPE,
    ),
}
_MILLISECONDS_MOST: Final = (2**63 - 1) // 1000


def spark_schema(columns: Sequence[str]) -> StructType:
    """The schema of some columns."""
    return StructType([StructField(name, _TYPES[name][0]) for name in columns])


def decoded_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are decoded for these; the offset at least, which counts the rows."""
    return tuple(name for name in DECODED if name in columns) or ("offset",)


def to_spark(decoded: pa.RecordBatch, partition: Partition, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the rows with exactly these columns.

    Raises:
        ConsumerError: a timestamp is not one that Spark has.
    """
    made = []
    for name in columns:
        if name == "topic":
            array = pa.repeat(pa.scalar(partition.topic, pa.string()), decoded.num_rows)
        elif name == "partition":
            array = pa.repeat(pa.scalar(partition.number, pa.int32()), decoded.num_rows)
        elif name == "timestamp":
            array = _microseconds(decoded, partition)
        else:
            array = decoded.column(name)
        made.append(array)
    return pa.RecordBatch.from_arrays(made, schema=pa.schema([(name, _TYPES[name][1]) for name in columns]))


def _microseconds(decoded: pa.RecordBatch, partition: Partition) -> pa.Array:
    milliseconds = decoded.column("timestamp").view(pa.int64()).to_numpy()
    if len(milliseconds) and max(-int(milliseconds.min()), int(milliseconds.max())) > _MILLISECONDS_MOST:
        raise ConsumerError(
            f"{partition}: a timestamp is larger than Spark's: leave the column timestamp out by the option columns"
        )
    return pa.array(milliseconds * np.int64(1000)).view(_TYPES["timestamp"][1])
