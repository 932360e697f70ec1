"""The types of Spark for those of Arrow that columns of values have."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_SIMPLE: Final[dict[pa.DataType, DataType]] = {
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
    pa.timestamp("us"): TimestampNTZType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
}


def spark_type(kind: pa.DataType) -> DataType:
    """The type of a column; all its parts may be null."""
    if pa.types.is_list(kind):
        return ArrayType(spark_type(kind.value_type))
    if pa.types.is_map(kind):
        return MapType(spark_type(kind.key_type), spark_type(kind.item_type))
    if pa.types.is_struct(kind):
        return spark_struct([kind.field(number) for number in range(kind.num_fields)])
    if pa.types.is_decimal(kind):
        return DecimalType(kind.precision, kind.scale)
    return _SIMPLE[kind]


def spark_struct(fields: list[pa.Field]) -> StructType:
    """The struct of some columns."""
    return StructType([StructField(field.name, spark_type(field.type)) for field in fields])
