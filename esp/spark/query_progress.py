"""How far a query is behind its topics: in records, bytes and seconds."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from esp.consumer.cluster import Cluster
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import LATEST
from esp.consumer.partition_reader import FetchTerms
from esp.spark.position import Position
from esp.spark.query_sources import ClusterSettings, find_clusters, read_cluster, read_progress
from esp.spark.ranges import OffsetRange
from esp.spark.sampling import take_sample

_TIMEOUT_S: Final = 10.0
_HEADINGS: Final = ("topic", "partition", "offset", "end", "records", "bytes", "seconds")


class PartitionProgress(NamedTuple):
    """A partition of a query.

    Attributes:
        topic: its topic.
        partition: its number.
        offset: the offset up to which it is read.
        end: its end.
        records: the offsets between them.
        bytes: their size, by the mean of the next ones.
        seconds: the age of the next record; 0 if all are read.
    """

    topic: str
    partition: int
    offset: int
    end: int
    records: int
    bytes: int
    seconds: float


class Progress(NamedTuple):
    """The progress of a query. As a text it is a table."""

    partitions: Sequence[PartitionProgress]

    @property
    def records(self) -> int:
        """The records behind."""
        return sum(each.records for each in self.partitions)

    @property
    def bytes(self) -> int:
        """The bytes behind."""
        return sum(each.bytes for each in self.partitions)

    @property
    def seconds(self) -> float:
        """The age of the oldest record that is not read."""
        return max((each.seconds for each in self.partitions), default=0.0)

    def to_json(self) -> str:
        """The sums and the partitions."""
        sums = {"records": self.records, "bytes": self.bytes, "seconds": self.seconds}
        return json.dumps({**sums, "partitions": [each._asdict() for each in self.partitions]})

    def __str__(self) -> str:
        rows = [_HEADINGS, *(tuple(map(str, each)) for each in self.partitions)]
        sums = ("all", "", "", "", str(self.records), str(self.bytes), str(self.seconds))
        widths = [max(map(len, column)) for column in zip(*rows, sums, strict=True)]
        return "\n".join(
            "  ".join(
                [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
            )
            for row in (*rows, sums)
        )


def progress(query: Any, options: Mapping[str, str] | None = None) -> Progress:
    """Return how far a query is behind, by its last batch.

    Args:
        query: PySpark's ``StreamingQuery``, while it runs.
        options: the ``kafka.*`` options of its cluster, under Spark Connect.

    Raises:
        ConsumerError: the query has no source of topics, its cluster is not known, or does not answer.
    """
    last = query.lastProgress
    clusters = find_clusters(query)
    given = None if options is None else read_cluster(options)
    found: list[PartitionProgress] = []
    for offsets, known in read_progress([] if last is None else last.sources, clusters):
        cluster = given or known
        if cluster is None:
            raise ConsumerError("the cluster of the query is not known here: give kafka.* options of its source")
        found += measure(cluster, offsets, lambda: time.time() * 1000)
    if last is not None and not found:
        raise ConsumerError("the query reads no topics: its sources are neither kafka nor esp")
    return Progress(found)


def measure(settings: ClusterSettings, position: Position, now_ms: Callable[[], float]) -> list[PartitionProgress]:
    """Return how far a position is behind.

    Args:
        settings: of the cluster.
        position: by partition the next offset.
        now_ms: the time, in milliseconds since 1970.

    Raises:
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    with Cluster(settings.servers, settings.terms, _TIMEOUT_S) as cluster:
        ends = cluster.find_offsets(dict.fromkeys(position, LATEST))
        rows = []
        for partition, offset in sorted(position.items()):
            end = ends[partition].offset
            behind = OffsetRange(partition, offset, max(offset, end))
            sample = take_sample(FetchTerms(), cluster, behind)
            age_s = max(0.0, round((now_ms() - sample.times[0]) / 1000, 1)) if sample.times else 0.0
            size = round(sample.bytes_per_offset * behind.size)
            rows.append(PartitionProgress(*partition, offset, end, behind.size, size, age_s))
        return rows
