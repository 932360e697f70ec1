"""The columns of rows as Spark knows them, with the types of its Kafka source."""

from collections.abc import Sequence

from pyspark.sql.types import StructType

from esp.options.rows import check_names, schema_of_rows
from esp.options.value_columns import ValueColumns
from esp.spark.value_types import spark_struct


def spark_schema(columns: Sequence[str], values: ValueColumns | None = None) -> StructType:
    """The schema of some columns.

    Args:
        columns: the columns of a record.
        values: what makes the columns of the value; None: it is one.

    Raises:
        OptionError: a field of the value has the name of another column.
    """
    schema = schema_of_rows(columns, values)
    check_names(schema, "leave that one out by columns, as in columns=value,partition,offset")
    return spark_struct(list(schema))
