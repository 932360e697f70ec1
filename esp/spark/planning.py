"""The plan of a batch read: options and a cluster's answers become the ranges of offsets of all tasks."""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from esp.arrow.errors import Place
from esp.arrow.scanning import scan_batches
from esp.consumer import messages
from esp.consumer.cluster import Cluster, LedPartition
from esp.consumer.connection import Connection
from esp.consumer.errors import ConnectionLostError, describe
from esp.consumer.messages import EARLIEST, LATEST, Partition, TopicInfo, Wanted
from esp.spark.errors import OptionError
from esp.spark.narrowing import Narrowing
from esp.spark.options import Edge, ReadOptions
from esp.spark.ranges import OffsetRange, divide

_SAMPLE_BYTES: Final = 256 * 1024
"""The bytes of a partition that are looked at for the mean size of its records."""


class TaskPlan(NamedTuple):
    """The work of one task, and where its partition's leader was found."""

    offsets: OffsetRange
    leader: LedPartition


def plan_read(options: ReadOptions, narrowing: Narrowing) -> list[TaskPlan]:
    """Return what the tasks of a batch read.

    Args:
        options: of the read.
        narrowing: what filters leave of it.

    Raises:
        OptionError: an option does not fit the topics and offsets that are there.
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    with Cluster(options.servers, options.terms, options.api_timeout_s, options.fetch_terms.backoff_s) as cluster:
        partitions = _find_partitions(options, cluster)
        if not partitions:
            return []
        earliest = _ask(cluster, options, dict.fromkeys(partitions, EARLIEST))
        latest = _ask(cluster, options, dict.fromkeys(partitions, LATEST))
        starts = _resolve_start(options, cluster, partitions, earliest, latest)
        ends = _resolve_end(options, cluster, partitions, earliest, latest)
        ranges = [
            _range(options, partition, starts[partition], ends[partition], latest[partition])
            for partition in partitions
        ]
        ranges = _skip_earlier(options, cluster, narrowing.apply(ranges), narrowing.since_ms)
        if not any(one.size for one in ranges):
            return []
        leaders = cluster.find_leaders([one.partition for one in ranges])
        sizes = {}
        if options.max_bytes is not None:
            sizes = {one.partition: _sample(options, one, leaders[one.partition]) for one in ranges if one.size > 0}
        tasks = divide(ranges, options.min_partitions, options.max_records, options.max_bytes, sizes)
        return [TaskPlan(one, leaders[one.partition]) for one in tasks]


def _find_partitions(options: ReadOptions, cluster: Cluster) -> list[Partition]:
    if options.pattern is not None:
        topics = cluster.describe(None)
        matches = re.compile(options.pattern).search
        found = [topic for name, topic in sorted(topics.items()) if matches(name) and not topic.is_internal]
        for topic in found:
            _check_topic("subscribePattern", options.pattern, topic)
        return [Partition(topic.name, number) for topic in found for number in sorted(topic.leaders)]
    if options.topics is not None:
        topics = cluster.describe(options.topics)
        for name in options.topics:
            _check_topic("subscribe", name, topics[name])
        return [Partition(name, number) for name in options.topics for number in sorted(topics[name].leaders)]
    assert options.partitions is not None, "one of the three says what is read"
    topics = cluster.describe(sorted({partition.topic for partition in options.partitions}))
    for partition in options.partitions:
        topic = topics[partition.topic]
        _check_topic("assign", partition.topic, topic)
        if partition.number not in topic.leaders:
            raise OptionError(
                "assign",
                partition.number,
                f"topic {topic.name} has no such partition, it has {len(topic.leaders)}, counted from 0: correct it",
            )
    return list(options.partitions)


def _check_topic(option: str, value: str, topic: TopicInfo) -> None:
    if topic.error:
        raise OptionError(
            option, value, f"topic {topic.name}: {describe(topic.error)}: correct the option, or create the topic"
        )


def _ask(cluster: Cluster, options: ReadOptions, questions: Mapping[Partition, int]) -> dict[Partition, int]:
    found = cluster.find_offsets(questions, is_read_committed=options.fetch_terms.is_read_committed)
    return {partition: answer.offset for partition, answer in found.items()}


def _resolve_start(
    options: ReadOptions,
    cluster: Cluster,
    partitions: Sequence[Partition],
    earliest: Mapping[Partition, int],
    latest: Mapping[Partition, int],
) -> dict[Partition, int]:
    edge = options.start
    timestamps = _timestamps(edge, partitions)
    if timestamps is None:
        return _given_offsets(edge, partitions, earliest, latest)
    found = _ask(cluster, options, timestamps)
    for partition, offset in found.items():
        if offset < 0:
            if not options.latest_if_none:
                raise OptionError(
                    edge.option,
                    edge.value,
                    f"no record of {partition} has that time or a later one: write an earlier time, or set "
                    "startingOffsetsByTimestampStrategy=latest to begin at the end there",
                )
            found[partition] = latest[partition]
    return found


def _resolve_end(
    options: ReadOptions,
    cluster: Cluster,
    partitions: Sequence[Partition],
    earliest: Mapping[Partition, int],
    latest: Mapping[Partition, int],
) -> dict[Partition, int]:
    edge = options.end
    timestamps = _timestamps(edge, partitions)
    if timestamps is None:
        return _given_offsets(edge, partitions, earliest, latest)
    found = _ask(cluster, options, timestamps)
    return {partition: latest[partition] if offset < 0 else offset for partition, offset in found.items()}


def _timestamps(edge: Edge, partitions: Sequence[Partition]) -> dict[Partition, int] | None:
    if edge.timestamp is not None:
        return dict.fromkeys(partitions, edge.timestamp)
    if edge.timestamps is not None:
        _check_named(edge, edge.timestamps, partitions)
        return dict(edge.timestamps)
    return None


def _given_offsets(
    edge: Edge, partitions: Sequence[Partition], earliest: Mapping[Partition, int], latest: Mapping[Partition, int]
) -> dict[Partition, int]:
    if edge.offsets is None:
        return dict(earliest if edge.everywhere == EARLIEST else latest)
    _check_named(edge, edge.offsets, partitions)
    words = {EARLIEST: earliest, LATEST: latest}
    return {partition: words[offset][partition] if offset < 0 else offset for partition, offset in edge.offsets.items()}


def _check_named(edge: Edge, named: Mapping[Partition, int], partitions: Sequence[Partition]) -> None:
    """Check that an option names exactly the partitions that are read."""
    missing = sorted(set(partitions) - set(named))
    if missing:
        raise OptionError(
            edge.option,
            edge.value,
            f"{missing[0]} is read and not named: name all partitions (-2: earliest, -1: latest)",
        )
    unknown = sorted(set(named) - set(partitions))
    if unknown:
        raise OptionError(edge.option, edge.value, f"{unknown[0]} is named and not read, or does not exist: remove it")


def _range(options: ReadOptions, partition: Partition, first: int, end: int, latest: int) -> OffsetRange:
    if end > latest:
        if options.fetch_terms.fails_on_loss:
            raise OptionError(
                options.end.option,
                options.end.value,
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
    found = _ask(cluster, options, asked)
    later = []
    for one in ranges:
        offset = found.get(one.partition, one.first)
        first = one.end if offset < 0 else min(max(one.first, offset), one.end)
        later.append(OffsetRange(one.partition, first, one.end))
    return later


def _sample(options: ReadOptions, one: OffsetRange, leader: LedPartition) -> float:
    """The mean size of a partition's records with their share of the batch, from the beginning of its range; 0 if it cannot be seen."""
    wanted = Wanted(
        one.partition,
        one.first,
        leader.epoch,
        _SAMPLE_BYTES,
        _SAMPLE_BYTES,
        1,
        0,
        options.fetch_terms.is_read_committed,
        "",
    )
    try:
        with Connection(leader.broker.host, leader.broker.port, options.terms) as connection:
            fetched = messages.decode_fetch(connection.call(messages.FETCH, messages.encode_fetch(wanted)))
    except ConnectionLostError:
        return 0.0
    if fetched.error:
        return 0.0
    place = Place(one.partition.topic, one.partition.number)
    batches = scan_batches(fetched.memory, place, size=fetched.size, check_crcs=options.fetch_terms.checks_crcs)
    if batches.next_offset is None:
        return 0.0
    return float(batches.sizes.sum()) / (batches.next_offset - int(batches.base_offsets[0]))
