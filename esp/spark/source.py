"""The data source ``esp``: Spark's planner makes it on the driver, and its reader runs in the tasks."""

import logging
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.consumer.partition_reader import PartitionReader
from esp.spark.columns import decoded_columns, spark_schema, to_spark
from esp.spark.errors import OptionError
from esp.spark.narrowing import Narrowing
from esp.spark.options import ReadOptions, parse_options
from esp.spark.planning import TaskPlan, plan_read

_log = logging.getLogger(__name__)


class DefaultSource(DataSource):
    """``spark.read.format("esp")``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = parse_options(options)

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "esp"

    def schema(self) -> StructType:
        """The columns that were asked for."""
        return spark_schema(self._parsed.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch.

        Raises:
            OptionError: the program has a schema of its own.
        """
        expected = self.schema()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in expected]:
            raise OptionError(
                "schema",
                schema.simpleString(),
                f"the columns are {expected.simpleString()}: remove .schema(), choose by columns",
            )
        return BatchReader(self._parsed)


class Task(InputPartition):
    """The work of one task."""

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(None)
        self.plan = plan


class FilterPush:
    """Has a read leave out what filters refuse, as far as that is known before records are read.

    PySpark 4.1 refuses a reader with a method of this name where filters are not pushed down, which is the default: they would be lost.
    Here they are not, since Spark gets all filters back and looks at all rows itself. PySpark asks for ``__func__`` whether the method is
    its own.

    Args:
        narrowing: what filters leave.
    """

    def __init__(self, narrowing: Narrowing) -> None:
        self._narrowing = narrowing
        self.__func__ = getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> list[Any]:
        """Take filters into account; return those that Spark applies, which are all."""
        self._narrowing.add(filters)
        return filters


class BatchReader(DataSourceReader):
    """Reads ranges of offsets.

    Args:
        options: of the read.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._narrowing = Narrowing()

    @property
    def pushFilters(self) -> "FilterPush":  # noqa: N802 - PySpark's name
        """Takes the filters of a query, in Spark 4.1 and later where ``spark.sql.python.filterPushdown.enabled`` is true."""
        return FilterPush(self._narrowing)

    def partitions(self) -> list[InputPartition]:
        """The tasks; one that reads nothing if there is nothing to read."""
        return [Task(plan) for plan in plan_read(self._options, self._narrowing)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in batches of Arrow."""
        if partition is None:
            return
        assert isinstance(partition, Task), "tasks are made by partitions()"
        offsets, leader = partition.plan
        options = self._options
        place = Place(*offsets.partition)
        wanted = decoded_columns(options.columns)
        reader = PartitionReader(
            offsets.partition, options.servers, leader, options.terms, options.fetch_terms, warn=_log.warning
        )
        with closing(reader):
            for fetched in reader.read(offsets.first, offsets.end):
                decoded = decode_batches(
                    fetched.batches, place, fetched.first_offset, fetched.end_offset, fetched.aborted, wanted
                )
                for batch in decoded:
                    yield to_spark(batch, offsets.partition, options.columns)
