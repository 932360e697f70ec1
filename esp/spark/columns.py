"""Decoded batches as Spark wants them: the columns of its Kafka source, with its types. The value may be several columns."""

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
from esp.options.errors import OptionError
from esp.options.value_columns import VALUE, BadValueError, ValueColumns
from esp.spark.value_types import spark_struct

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


def spark_schema(columns: Sequence[str], values: ValueColumns | None = None) -> StructType:
    """The schema of some columns.

    Args:
        columns: the columns of a record.
        values: what makes the columns of the value; None: it is one.

    Raises:
        OptionError: a field of the value has the name of another column.
    """
    fields: list[StructField] = []
    for name in columns:
        if name == VALUE and values is not None:
            fields += spark_struct(list(values.schema)).fields
        else:
            fields.append(StructField(name, _TYPES[name][0]))
    seen = set()
    for field in fields:
        if field.name.lower() in seen:
            raise OptionError(
                "valueSchema",
                None,
                f"its column {field.name} has the name of a record's: leave that one out by columns, as in columns=value,partition,offset",
            )
        seen.add(field.name.lower())
    return StructType(fields)


def decoded_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are decoded for these; the offset at least, which counts the rows."""
    return tuple(name for name in DECODED if name in columns) or ("offset",)


def to_spark(
    decoded: pa.RecordBatch, partition: Partition, columns: Sequence[str], values: ValueColumns | None = None
) -> pa.RecordBatch:
    """Return the rows with exactly these columns.

    Args:
        decoded: the rows.
        partition: theirs.
        columns: the columns.
        values: what makes the columns of the value; None: it is one.

    Raises:
        ConsumerError: a timestamp is not one that Spark has, or a value cannot be decoded.
    """
    made: list[pa.Array] = []
    fields: list[pa.Field] = []
    for name in columns:
        if name == VALUE and values is not None:
            made += _value_columns(decoded, partition, values)
            fields += list(values.schema)
            continue
        fields.append(pa.field(name, _TYPES[name][1]))
        if name == "topic":
            made.append(pa.repeat(pa.scalar(partition.topic, pa.string()), decoded.num_rows))
        elif name == "partition":
            made.append(pa.repeat(pa.scalar(partition.number, pa.int32()), decoded.num_rows))
        elif name == "timestamp":
            made.append(_microseconds(decoded, partition))
        else:
            made.append(decoded.column(name))
    return pa.RecordBatch.from_arrays(made, schema=pa.schema(fields))


def _value_columns(decoded: pa.RecordBatch, partition: Partition, values: ValueColumns) -> list[pa.Array]:
    try:
        return values.make(decoded.column(VALUE))
    except BadValueError as error:
        where = f", offset {decoded.column('offset')[error.row]}" if "offset" in decoded.schema.names else ""
        raise ConsumerError(f"{partition}{where}: {error}") from error


def _microseconds(decoded: pa.RecordBatch, partition: Partition) -> pa.Array:
    milliseconds = decoded.column("timestamp").view(pa.int64()).to_numpy()
    if len(milliseconds) and max(-int(milliseconds.min()), int(milliseconds.max())) > _MILLISECONDS_MOST:
        raise ConsumerError(
            f"{partition}: a timestamp is larger than Spark's: leave the column timestamp out by the option columns"
        )
    return pa.array(milliseconds * np.int64(1000)).view(_TYPES["timestamp"][1])
