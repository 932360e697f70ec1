"""Topics of a cluster: the offsets of a table are fixed when the query begins to read it.

A topic is known by the id that it had when the query was made: records of another one of its name are never read.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from esp.arrow.decoding import decode_batches
from esp.arrow.errors import Place
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.errors import NO_ERROR, ConsumerError, describe
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.consumer.partition_reader import FetchTerms, PartitionReader
from esp.sql.bounds import Bound, Bounds


class ClusterSource:
    """The topics of a cluster.

    Args:
        servers: the bootstrap servers.
        terms: of connections.
        fetch_terms: of fetches.
        bounds: of each partition.
        warn: called with the text of a loss that is no error.
    """

    def __init__(
        self,
        servers: Sequence[Address],
        terms: Terms,
        fetch_terms: FetchTerms,
        bounds: Bounds,
        warn: Callable[[str], None],
    ) -> None:
        self._servers = servers
        self._terms = terms
        self._fetch_terms = fetch_terms
        self._bounds = bounds
        self._warn = warn
        self._ids: dict[str, bytes] = {}

    def topics(self) -> set[str]:
        """See :class:`~esp.sql.source.TopicSource`."""
        with self._connect() as cluster:
            found = cluster.describe(None)
        self._ids = {name: info.topic_id for name, info in found.items()}
        return set(found)

    def read(self, topic: str, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        """See :class:`~esp.sql.source.TopicSource`."""
        with self._connect() as cluster:
            ranges = self._find_ranges(cluster, topic)
            leaders = cluster.find_leaders([partition for partition, _, _ in ranges])
        for partition, first, end in ranges:
            reader = PartitionReader(
                partition,
                self._servers,
                leaders[partition],
                self._terms,
                self._fetch_terms,
                self._warn,
                self._ids[topic],
            )
            place = Place(*partition)
            with closing(reader):
                for fetched in reader.read(first, end):
                    decoded = decode_batches(
                        fetched.batches, place, fetched.first_offset, fetched.end_offset, fetched.aborted, columns
                    )
                    for batch in decoded:
                        yield partition, batch

    def _connect(self) -> Cluster:
        return Cluster(self._servers, self._terms)

    def _find_ranges(self, cluster: Cluster, topic: str) -> list[tuple[Partition, int, int]]:
        """For each partition that has records within the bounds, its first offset and its end.

        Raises:
            ConsumerError: the topic is not there any more, or is another one; or the cluster does not answer.
        """
        info = cluster.describe([topic])[topic]
        if info.error != NO_ERROR:
            raise ConsumerError(f"topic {topic}: {describe(info.error)}: correct its name in the query")
        if info.topic_id != self._ids.setdefault(topic, info.topic_id):
            raise ConsumerError(f"topic {topic} was deleted and created again while the query ran: run the query again")
        partitions = [Partition(topic, number) for number in sorted(info.leaders)]
        earliest = self._ask(cluster, dict.fromkeys(partitions, EARLIEST))
        latest = self._ask(cluster, dict.fromkeys(partitions, LATEST))
        first = self._resolve(cluster, self._bounds.first, earliest, latest)
        end = self._resolve(cluster, self._bounds.end, latest, latest)
        ranges = [
            (partition, max(first[partition], earliest[partition]), min(end[partition], latest[partition]))
            for partition in partitions
        ]
        return [(partition, begin, stop) for partition, begin, stop in ranges if begin < stop]

    def _resolve(
        self,
        cluster: Cluster,
        bound: Bound | None,
        default: dict[Partition, int],
        latest: dict[Partition, int],
    ) -> dict[Partition, int]:
        if bound is None:
            return default
        if bound.offset is not None:
            return dict.fromkeys(default, bound.offset)
        found = self._ask(cluster, dict.fromkeys(default, bound.time_ms))
        return {partition: latest[partition] if offset < 0 else offset for partition, offset in found.items()}

    def _ask(self, cluster: Cluster, questions: dict[Partition, int]) -> dict[Partition, int]:
        answers = cluster.find_offsets(questions, is_read_committed=self._fetch_terms.is_read_committed)
        return {partition: answer.offset for partition, answer in answers.items()}
