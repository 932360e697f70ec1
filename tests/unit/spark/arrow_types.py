"""The types of Arrow that PySpark has for its own."""

import inspect

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

_ZONED = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_type).parameters else {}
"""PySpark 4.0 takes the zone of timestamps for granted."""


def arrow_type(kind: DataType) -> pa.DataType:
    """The type of Arrow for one of Spark's."""
    return to_arrow_type(kind, **_ZONED)
