"""The reader of a stream: Spark's planner makes it once for a run of a query, and once for the tasks of each micro-batch."""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from esp.spark.options import ReadOptions
from esp.spark.position import from_json, to_json
from esp.spark.stream_planning import StreamPlanner
from esp.spark.task import Task, read_task

_log = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader):
    """Plans micro-batches and reads their ranges of offsets.

    Args:
        options: of the stream.
    """

    _learns_ends = False
    """True if Spark says when a run is to end where the topics end."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._made: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """Where a new query begins."""
        return to_json(self._planner().find_initial())

    def latestOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name
        """The end of the next batch."""
        return to_json(self._planner().advance())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The tasks of a batch."""
        return [Task(plan) for plan in self._planner().plan(from_json(start), from_json(end))]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task in batches of Arrow."""
        return read_task(self._options, partition, _log.warning)

    def stop(self) -> None:
        """End the connections."""
        if self._made is not None:
            self._made.close()
            self._made = None

    def _planner(self) -> StreamPlanner:
        if self._made is None:
            self._made = StreamPlanner(self._options, _log.warning, learns_ends=self._learns_ends)
        return self._made
