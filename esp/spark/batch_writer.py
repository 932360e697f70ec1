"""``df.write.format("esp")``: rows are sent to a topic at least once, in the tasks that have them."""

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from esp.executor.worker_process import ease_next_task
from esp.options.errors import OptionError
from esp.sink.decision import Place
from esp.sink.order import BatchOrder, SinkTarget
from esp.sink.plain_task import send_rows
from esp.sink.topic_partitions import count_partitions
from esp.spark.record_columns import check_columns
from esp.spark.write_options import parse_write_options


@dataclass
class Sent(WriterCommitMessage):
    """The work of a task that has sent its rows."""

    rows: int


class BatchWriter(DataSourceArrowWriter):
    """Writes rows; made on the driver, and used in tasks.

    Args:
        schema: of the rows.
        options: of the write.

    Raises:
        OptionError: an option or a column cannot be used.
        ConsumerError: the topic is not there.
    """

    def __init__(self, schema: Any, options: Mapping[str, str]) -> None:
        parsed = parse_write_options(options, ("topic", "transaction"), is_transactional=False)
        if parsed.others.get("transaction"):
            raise OptionError(
                "transaction",
                parsed.others["transaction"],
                "Spark lets a Python writer not bring rows to the tasks of their partitions, which writing once needs: use "
                "esp.spark.write_once(df, topic=…, transaction=…, options=…)",
            )
        topic = parsed.others.get("topic", "").strip()
        if not topic:
            raise OptionError("topic", None, "it says where rows are written: name a topic")
        check_columns(schema)
        target = SinkTarget(uuid.uuid4().hex, Place("", topic), parsed.servers, parsed.terms, parsed.write_terms)
        with target.connect() as cluster:
            self._order = BatchOrder(target, 0, count_partitions(cluster, topic))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Send the rows of a task."""
        sent = Sent(send_rows(iterator, self._order))
        ease_next_task()
        return sent
