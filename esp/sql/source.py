"""A place that topics are read from."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from esp.consumer.messages import Partition


class TopicSource(Protocol):
    """Topics by their names."""

    def topics(self) -> set[str]:
        """Return the names of all topics.

        Raises:
            ConsumerError: they cannot be seen.
        """

    def read(self, topic: str, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """Yield the records of a topic, one partition after the other, with these columns of :data:`esp.arrow.decoding.COLUMNS`.

        Raises:
            ConsumerError: records are not there, may not be read, or do not come in time.
            BrokenBatchError: a batch is not the one that was written.
        """
