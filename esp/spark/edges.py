"""The offsets at which a read begins and ends: options by offset, word or time, and a cluster's answers to them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.consumer.cluster import Cluster
from esp.consumer.messages import EARLIEST, LATEST, Partition
from esp.options.errors import OptionError
from esp.spark.options import Edge, ReadOptions


class Start(NamedTuple):
    """The offsets at which a read begins, and the first offsets and the ends of its partitions."""

    offsets: Mapping[Partition, int]
    earliest: Mapping[Partition, int]
    latest: Mapping[Partition, int]


def ask(cluster: Cluster, options: ReadOptions, questions: Mapping[Partition, int]) -> dict[Partition, int]:
    """Return the offsets of timestamps, ``EARLIEST`` or ``LATEST``; -1 where no record is as late.

    Raises:
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    found = cluster.find_offsets(questions, is_read_committed=options.fetch_terms.is_read_committed)
    return {partition: answer.offset for partition, answer in found.items()}


def find_start(options: ReadOptions, cluster: Cluster, partitions: Sequence[Partition]) -> Start:
    """Return where a read begins in each partition, and the ends of the partitions.

    Raises:
        OptionError: the option does not fit the partitions, or no record is as late as its time.
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    earliest = ask(cluster, options, dict.fromkeys(partitions, EARLIEST))
    latest = ask(cluster, options, dict.fromkeys(partitions, LATEST))
    starts = _resolve_start(options, cluster, partitions, earliest, latest)
    return Start(starts, earliest, _with_newer(options.start, latest, starts))


def _with_newer(edge: Edge, latest: Mapping[Partition, int], found: Mapping[Partition, int]) -> dict[Partition, int]:
    """The ends of partitions with the records that a look-up by time found behind them: they were written after the ends were asked for."""
    if edge.timestamp is None and edge.timestamps is None:
        return dict(latest)
    return {partition: max(end, found[partition]) for partition, end in latest.items()}


def _resolve_start(
    options: ReadOptions,
    cluster: Cluster,
    partitions: Sequence[Partition],
    earliest: Mapping[Partition, int],
    latest: Mapping[Partition, int],
) -> dict[Partition, int]:
    edge = options.start
    timestamps = timestamps_of(edge, partitions)
    if timestamps is None:
        return _given_offsets(edge, partitions, earliest, latest)
    found = ask(cluster, options, timestamps)
    for partition, offset in sorted(found.items()):
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


def find_end(
    options: ReadOptions, edge: Edge, cluster: Cluster, partitions: Sequence[Partition], start: Start
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    """Return where a batch ends in each partition, and the ends of the partitions, which are not before it where a time says it.

    Raises:
        OptionError: the option does not fit the partitions.
        ConsumerError: the cluster does not answer, or does not allow it.
    """
    timestamps = timestamps_of(edge, partitions)
    if timestamps is None:
        return _given_offsets(edge, partitions, start.earliest, start.latest), dict(start.latest)
    found = ask(cluster, options, timestamps)
    ends = {partition: start.latest[partition] if offset < 0 else offset for partition, offset in found.items()}
    return ends, _with_newer(edge, start.latest, ends)


def timestamps_of(edge: Edge, partitions: Sequence[Partition]) -> dict[Partition, int] | None:
    """Return the timestamps of an edge by partition; None if it has none.

    Raises:
        OptionError: it names others than these partitions.
    """
    if edge.timestamp is not None:
        return dict.fromkeys(partitions, edge.timestamp)
    if edge.timestamps is not None:
        check_named(edge, edge.timestamps, partitions)
        return dict(edge.timestamps)
    return None


def _given_offsets(
    edge: Edge, partitions: Sequence[Partition], earliest: Mapping[Partition, int], latest: Mapping[Partition, int]
) -> dict[Partition, int]:
    if edge.offsets is None:
        return dict(earliest if edge.everywhere == EARLIEST else latest)
    check_named(edge, edge.offsets, partitions)
    words = {EARLIEST: earliest, LATEST: latest}
    return {partition: words[offset][partition] if offset < 0 else offset for partition, offset in edge.offsets.items()}


def check_named(edge: Edge, named: Mapping[Partition, int], partitions: Sequence[Partition]) -> None:
    """Check that an option names exactly the partitions that are read.

    Raises:
        OptionError: it does not.
    """
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
