"""Functions for columns of other sources, as Spark's own of these names: ``from_json`` and ``from_avro``.

They are UDFs over batches: executors need pandas besides numpy and pyarrow, which is how PySpark hands batches to functions.
"""

from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql.pandas.functions import pandas_udf

from esp.options.value_columns import open_values, with_newest
from esp.options.value_options import ValueOptions, parse_value_options
from esp.spark.value_types import spark_struct


def from_json(column: Column, schema: str, *, mode: str = "permissive", zone: str | None = None) -> Column:
    """Return a struct of the fields of JSON objects, and of ``_corrupt`` unless ``mode`` is failfast.

    Args:
        column: the values, text or bytes.
        schema: the fields in DDL.
        mode: ``permissive``: what cannot be decoded is null, and the value stands in ``_corrupt``; ``failfast``: it fails the query.
        zone: the time zone of timestamps without one; without it the session's.

    Raises:
        OptionError: an argument cannot be used.
    """
    if zone is None:
        session = SparkSession.getActiveSession()
        zone = "UTC" if session is None else session.conf.get("spark.sql.session.timeZone") or "UTC"
    given = {"valueFormat": "json", "valueSchema": schema, "mode": mode, "timeZone": zone}
    return _decode(column, parse_value_options(given, None))


def from_avro(
    column: Column,
    schema: str | None = None,
    *,
    registry: str | None = None,
    subject: str | None = None,
    mode: str = "permissive",
) -> Column:
    """Return a struct of the fields of Avro records, and of ``_corrupt`` unless ``mode`` is failfast.

    Args:
        column: the values.
        schema: the schema in Avro's JSON; with a registry that of the columns, without one that of the values too.
        registry: the URL of the registry whose ids stand before the values.
        subject: the subject of the registry whose newest schema is that of the columns, if none is given.
        mode: as of :func:`from_json`.

    Raises:
        OptionError: an argument cannot be used.
        RegistryError: the newest schema is not to be had.
    """
    given = {
        "valueFormat": "avro",
        "mode": mode,
        "valueSchema": schema,
        "schemaRegistry": registry,
        "schemaSubject": subject,
    }
    options = parse_value_options({name: value for name, value in given.items() if value is not None}, None)
    return _decode(column, with_newest(options))


def _decode(column: Column, options: ValueOptions) -> Column:
    values = open_values(options)
    assert values is not None, "the values have a format"

    def decode(series: pd.Series) -> pd.DataFrame:
        made = open_values(options)
        assert made is not None, "the values have a format"
        columns = made.make(pa.array(series, pa.binary()))
        return pd.DataFrame({name: _series(one) for name, one in zip(made.schema.names, columns, strict=True)})

    make: Any = pandas_udf  # whose types lack this use
    decoded: Column = make(decode, spark_struct(list(values.schema)))(column.cast("binary"))
    return decoded


def _series(column: pa.Array) -> pd.Series:
    """A column for PySpark, which walks through nested ones and wants Python's values there."""
    if not pa.types.is_nested(column.type):
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))
    return pd.Series([_plain(value, column.type) for value in column.to_pylist()], dtype=object)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """A value with dicts for maps."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _plain(item, kind.item_type) for key, item in value}
    if pa.types.is_list(kind):
        return [_plain(element, kind.value_type) for element in value]
    return {field.name: _plain(value[field.name], field.type) for field in kind}
