"""The ends of a stream that has some: by offset, by time, or where its topics end when the query starts."""

from collections.abc import Sequence

from esp.consumer.cluster import Cluster
from esp.consumer.messages import LATEST, Partition
from esp.spark.edges import ask, check_named
from esp.spark.options import Edge, ReadOptions
from esp.spark.position import Offsets, Position


class Bounds:
    """The ends of a stream.

    A time is an offset as soon as a record is there that is as late; until then the partition has no end. By offsets, or with
    ``latest``, the ends are known from the start of the query, and partitions that are added later are not read.

    Args:
        options: of the stream.
        edge: its end.
    """

    def __init__(self, options: ReadOptions, edge: Edge) -> None:
        self._options = options
        self._edge = edge
        self._ends: Offsets = {}
        self._is_fixed = False

    def check(self, partitions: Sequence[Partition]) -> None:
        """Check that the option names the partitions that a new query reads.

        Raises:
            OptionError: it does not.
        """
        named = self._edge.offsets or self._edge.timestamps
        if named is not None:
            check_named(self._edge, named, partitions)

    def find(self, cluster: Cluster, latest: Position) -> Offsets:
        """Return the ends as far as they are known.

        Args:
            cluster: the cluster.
            latest: the ends of the partitions that are read.

        Raises:
            ConsumerError: the cluster does not answer.
        """
        edge = self._edge
        if edge.timestamp is not None or edge.timestamps is not None:
            times = dict.fromkeys(latest, edge.timestamp) if edge.timestamps is None else edge.timestamps
            asked = {
                partition: time
                for partition, time in times.items()
                if time is not None and partition in latest and partition not in self._ends
            }
            if asked:
                found = ask(cluster, self._options, asked)
                self._ends |= {partition: offset for partition, offset in found.items() if offset >= 0}
            if edge.timestamps is not None:
                self._ends |= dict.fromkeys(latest.keys() - edge.timestamps.keys(), 0)
        else:
            if not self._is_fixed:
                given = dict.fromkeys(latest, LATEST) if edge.offsets is None else edge.offsets
                self._ends = {
                    partition: latest[partition] if offset == LATEST else offset
                    for partition, offset in given.items()
                    if partition in latest
                }
                self._is_fixed = True
            self._ends |= dict.fromkeys(latest.keys() - self._ends.keys(), 0)
        return self._ends

    def are_reached(self, latest: Position) -> bool:
        """True if no partition will have more records before its end."""
        return all(partition in self._ends and self._ends[partition] <= end for partition, end in latest.items())
