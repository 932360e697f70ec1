"""The shape of every record and row that the jobs exchange."""

from pyspark.sql.types import (
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

FLIGHT = StructType(
    [
        StructField("id", LongType()),  # position in event-time order over the whole source, from 0
        StructField("event_time", TimestampType()),  # scheduled departure
        StructField("carrier", StringType()),
        StructField("flight", IntegerType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
        StructField("dest", StringType()),
        StructField("dep_delay", IntegerType()),  # minutes; null: cancelled
        StructField("arr_delay", IntegerType()),  # minutes; null: cancelled, diverted or not recorded
        StructField("air_time", IntegerType()),  # minutes
        StructField("distance", IntegerType()),  # miles
    ]
)
"""A record's value in the topic of flights (JSON)."""

WEATHER = StructType(
    [
        StructField("origin", StringType()),
        StructField("time_hour", TimestampType()),
        StructField("temp", DoubleType()),  # degrees Fahrenheit
        StructField("wind_speed", DoubleType()),  # miles per hour
        StructField("precip", DoubleType()),  # inches in the hour
        StructField("visib", DoubleType()),  # miles, 10 at most
    ]
)
"""One hour of one airport; unique by origin and time_hour."""

AIRLINE = StructType([StructField("carrier", StringType()), StructField("airline", StringType())])

KAFKA_RECORD = StructType(
    [
        StructField("value", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
    ]
)
"""The columns of the Kafka source that the jobs read; the value arrives as bytes or text."""

FLIGHT_ROW = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        *FLIGHT.fields,
        StructField("cancelled", BooleanType()),
        StructField("airline", StringType()),
        *[field for field in WEATHER.fields if field.name not in {"origin", "time_hour"}],
    ]
)
"""A row of the Parquet output: a flight, where its record stood, its airline's name and the weather at its departure."""

DELAYS = StructType(
    [
        StructField("window_start", TimestampType()),
        StructField("window_end", TimestampType()),
        StructField("origin", StringType()),
        StructField("carrier", StringType()),
        StructField("airline", StringType()),
        StructField("flights", LongType()),
        StructField("cancelled", LongType()),
        StructField("delayed", LongType()),  # departed 15 minutes late or later
        StructField("dep_delay_sum", LongType()),  # minutes, over the flights that departed
        StructField("dep_delay_max", IntegerType()),
        StructField("arrived", LongType()),  # flights with a known arrival delay
        StructField("arr_delay_sum", LongType()),
        StructField("dep_delay_avg", DoubleType()),
    ]
)
"""A record's value in the topic of windows (JSON)."""
