"""The data source ``esp``: Spark's planner makes it on the driver, and its reader runs in the tasks."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from esp.options.errors import OptionError
from esp.options.value_columns import open_values, with_newest
from esp.spark.columns import spark_schema
from esp.spark.narrowing import Narrowing
from esp.spark.options import Kind, ReadOptions, parse_options
from esp.spark.planning import plan_read
from esp.spark.stream import StreamReader
from esp.spark.task import Task, read_task

_log = logging.getLogger(__name__)


class DefaultSource(DataSource):
    """``spark.read.format("esp")``, and ``spark.readStream``."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed: ReadOptions | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "esp"

    def schema(self) -> StructType:
        """The columns that were asked for.

        A registry's newest schema is asked for here, and once: Spark keeps this object from here on.

        Raises:
            OptionError: an option cannot be used, or is missing.
        """
        if self._parsed is None:
            parsed = parse_options(self.options, Kind.ANY)
            self._parsed = replace(parsed, values=with_newest(parsed.values))
        return spark_schema(self._parsed.columns, open_values(self._parsed.values))

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of a batch.

        Raises:
            OptionError: the program has a schema of its own, or an option is one of streams.
        """
        self._check_schema(schema)
        return BatchReader(self._options(Kind.BATCH))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """The reader of a stream.

        Raises:
            OptionError: the program has a schema of its own, or an option is one of batches.
        """
        self._check_schema(schema)
        options = self._options(Kind.STREAM)
        if find_spec("pyspark.sql.streaming.datasource") is None:  # PySpark before 4.2
            return StreamReader(options)
        from esp.spark.admitting_stream import AdmittingStreamReader  # noqa: PLC0415 - there are versions that cannot

        return AdmittingStreamReader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """The writer of a batch.

        Raises:
            OptionError: an option or a column cannot be used.
            ConsumerError: the topic is not there.
        """
        if overwrite:
            raise OptionError("mode", "overwrite", 'a topic is not overwritten: write .mode("append")')
        from esp.spark.batch_writer import BatchWriter  # noqa: PLC0415 - processes that only read do without it

        return BatchWriter(schema, self.options)

    def streamWriter(  # noqa: N802 - PySpark's name
        self,
        schema: StructType,  # noqa: ARG002 - Spark passes it
        overwrite: bool,  # noqa: ARG002 - likewise
    ) -> DataSourceStreamWriter:
        """Refused: Spark gives the writer of a stream rows one by one, and tells it no number of the batch.

        Raises:
            OptionError: always.
        """
        raise OptionError(
            "format",
            "esp",
            "it does not write streams: use esp.spark.exactly_once(stream, topic=…, sink=…), which gives a writer",
        )

    def _options(self, kind: Kind) -> ReadOptions:
        assert self._parsed is not None, "the schema was looked at first"
        return replace(parse_options(self.options, kind), values=self._parsed.values)

    def _check_schema(self, schema: StructType) -> None:
        expected = self.schema()
        if [(field.name, field.dataType) for field in schema] != [(field.name, field.dataType) for field in expected]:
            raise OptionError(
                "schema",
                schema.simpleString(),
                f"the columns are {expected.simpleString()}: remove .schema(), choose by columns",
            )


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
        """The tasks; none if there is nothing to read: Spark makes one of its own then."""
        return [Task(plan) for plan in plan_read(self._options, self._narrowing)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in batches of Arrow."""
        return read_task(self._options, partition, _log.warning)
