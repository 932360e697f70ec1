"""The plan of a batch read: options and a cluster's answers become the ranges of offsets of all tasks."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.consumer.cluster import Cluster, LedPartition
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.spark.edges import ask, find_end, find_start
from esp.spark.limits import Sample
from esp.spark.narrowing import Narrowing
from esp.spark.options import Edge, ReadOptions
from esp.spark.ranges import OffsetRange, divide
from esp.spark.sampling import take_samples
from esp.spark.subscription import find_subscription


class TaskPlan(NamedTuple):
    """The work of one task, where its partition's leader was found, and the id of the topic, empty if any topic of the name is read."""

    offsets: OffsetRange
    leader: LedPartition
    topic_id: bytes


def plan_read(options: ReadOptions, narrowing: Narrowing) -> list[TaskPlan]:
    """Return what the tasks of a batch read.

    Args:
        options: of the read.
        narrowing: what filters leave of it.

    Raises:
        OptionError: an option does not fit the topics and offsets that are there.
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    end = options.end
    assert end is not None, "a batch ends"
    with Cluster(options.servers, options.terms, options.api_timeout_s, options.fetch_terms.backoff_s) as cluster:
        partitions, ids = find_subscription(options, cluster)
        if not partitions:
            return []
        start = find_start(options, cluster, partitions)
        ends, latest = find_end(options, end, cluster, partitions, start)
        ranges = [
            _range(options, end, partition, start.offsets[partition], ends[partition], latest[partition])
            for partition in partitions
        ]
        ranges = _skip_earlier(options, cluster, narrowing.apply(ranges), narrowing.since_ms)
        return plan_tasks(options, cluster, ranges, ids)


def plan_tasks(
    options: ReadOptions, cluster: Cluster, ranges: Sequence[OffsetRange], ids: Mapping[str, bytes]
) -> list[TaskPlan]:
    """Return the tasks that read ranges; none for those that are empty.

    Args:
        options: of the read.
        cluster: the cluster.
        ranges: the offsets, of a partition each.
        ids: of the topics that the offsets are of, as far as they are known.

    Raises:
        ConsumerError: a partition has no leader until the time is over.
    """
    if not any(one.size for one in ranges):
        return []
    leaders = cluster.find_leaders([one.partition for one in ranges])
    samples: Mapping[Partition, Sample] = {}
    if options.max_bytes is not None:
        samples = take_samples(options.fetch_terms, cluster, ranges)
    sizes = {partition: sample.bytes_per_offset for partition, sample in samples.items()}
    tasks = divide(ranges, options.min_partitions, options.max_records, options.max_bytes, sizes)
    return [TaskPlan(one, leaders[one.partition], ids.get(one.partition.topic, b"")) for one in tasks]


def _range(options: ReadOptions, edge: Edge, partition: Partition, first: int, end: int, latest: int) -> OffsetRange:
    if end > latest:
        if options.fetch_terms.fails_on_loss:
            raise OptionError(
                edge.option,
                edge.value,
                f"{partition} ends at {latest}, before offset {end}: write {latest} or less, or set failOnDataLoss=false to read the rest",
            )
        end = latest
        first = min(first, end)
    if first > end:
        raise OptionError(
            options.start.option,
            options.start.value,
            f"{partition} would begin at offset {first}, behind its end {end}: begin earlier, or end later",
        )
    return OffsetRange(partition, first, end)


def _skip_earlier(
    options: ReadOptions, cluster: Cluster, ranges: list[OffsetRange], since_ms: int | None
) -> list[OffsetRange]:
    """The ranges without the records before the first that is as late as that."""
    if since_ms is None or since_ms < 0:  # a record without a timestamp has -1
        return ranges
    asked = {one.partition: since_ms for one in ranges if one.size > 0}
    if not asked:
        return ranges
    found = ask(cluster, options, asked)
    later = []
    for one in ranges:
        offset = found.get(one.partition, one.first)
        first = one.end if offset < 0 else min(max(one.first, offset), one.end)
        later.append(OffsetRange(one.partition, first, one.end))
    return later
