"""Rows of records: decoded batches with the columns of Spark's Kafka source. The value may be several columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from esp.arrow.columns import HEADERS_TYPE
from esp.arrow.decoding import COLUMNS as DECODED
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.options.value_columns import VALUE, BadValueError, ValueColumns

_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
}
_MILLISECONDS_MOST: Final = (2**63 - 1) // 1000


def schema_of_rows(columns: Sequence[str], values: ValueColumns | None = None) -> pa.Schema:
    """The schema of some columns.

    Args:
        columns: the columns of a record.
        values: what makes the columns of the value; None: it is one.
    """
    fields: list[pa.Field] = []
    for name in columns:
        if name == VALUE and values is not None:
            fields += list(values.schema)
        else:
            fields.append(pa.field(name, _TYPES[name]))
    return pa.schema(fields)


def check_names(schema: pa.Schema, remedy: str) -> None:
    """Return if no field of the value has the name of another column.

    Args:
        schema: of :func:`schema_of_rows`.
        remedy: what to do, for the message.

    Raises:
        OptionError: one has.
    """
    seen = set()
    for name in schema.names:
        if name.lower() in seen:
            raise OptionError("valueSchema", None, f"its column {name} has the name of a record's: {remedy}")
        seen.add(name.lower())


def decoded_columns(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are decoded for these; the offset at least, which counts the rows."""
    return tuple(name for name in DECODED if name in columns) or ("offset",)


def make_rows(
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
    for name in columns:
        if name == VALUE and values is not None:
            made += _value_columns(decoded, partition, values)
        elif name == "topic":
            made.append(pa.repeat(pa.scalar(partition.topic, pa.string()), decoded.num_rows))
        elif name == "partition":
            made.append(pa.repeat(pa.scalar(partition.number, pa.int32()), decoded.num_rows))
        elif name == "timestamp":
            made.append(_microseconds(decoded, partition))
        else:
            made.append(decoded.column(name))
    return pa.RecordBatch.from_arrays(made, schema=schema_of_rows(columns, values))


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
    return pa.array(milliseconds * np.int64(1000)).view(_TYPES["timestamp"])
