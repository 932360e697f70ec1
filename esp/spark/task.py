"""The work of one task of a batch or a micro-batch, on an executor."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.consumer.partition_reader import PartitionReader
from esp.executor.worker_process import ease_next_task
from esp.options.rows import decoded_columns, make_rows
from esp.options.value_columns import open_values
from esp.spark.options import ReadOptions
from esp.spark.planning import TaskPlan


class Task(InputPartition):
    """The work of one task."""

    def __init__(self, plan: TaskPlan) -> None:
        super().__init__(None)
        self.plan = plan


def read_task(
    options: ReadOptions, partition: InputPartition | None, warn: Callable[[str], None]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in batches of Arrow.

    Args:
        options: of the read.
        partition: the task; one of Spark's own where nothing is to be read: None, and in later versions an InputPartition.
        warn: called with the text of a loss that is no error.

    Raises:
        ConsumerError: records are gone and that is an error, may not be read, or do not come in time.
        BrokenBatchError: a batch is not the one that was written.
    """
    if not isinstance(partition, Task):
        return
    offsets, leader, topic_id = partition.plan
    place = Place(*offsets.partition)
    values = open_values(options.values)
    wanted = decoded_columns([*options.columns, "offset"] if options.values.fails else options.columns)
    reader = PartitionReader(
        offsets.partition, options.servers, leader, options.terms, options.fetch_terms, warn, topic_id
    )
    with closing(reader):
        for fetched in reader.read(offsets.first, offsets.end):
            decoded = decode_batches(
                fetched.batches, place, fetched.first_offset, fetched.end_offset, fetched.aborted, wanted
            )
            for batch in decoded:
                yield make_rows(batch, offsets.partition, options.columns, values)
    ease_next_task()
