"""The limits of a micro-batch: by offsets with the arithmetic of Spark's Kafka source, by bytes, and by the time of records.

Pure arithmetic on ranges from the position of a stream to the ends of its partitions: what is returned begins where they begin, and
ends where they end, or earlier. A limit never stops a stream: at least one record of what is there gets through.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from esp.consumer.messages import Partition
from esp.spark.ranges import OffsetRange

_WINDOW_LEAST_MS: Final = 1


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a micro-batch; None is none.

    Attributes:
        min_offsets: it waits for so many offsets,
        max_delay_ms: but not longer than this after the last one.
        max_offsets: so many at most; each partition with records gets one at least.
        max_bytes: so many at most, by the mean size of the next records of each partition; each gets one record at least.
        max_time_ms: all partitions end at the same record time, so long after the earliest record that is next.
    """

    min_offsets: int | None = None
    max_delay_ms: int = 0
    max_offsets: int | None = None
    max_bytes: int | None = None
    max_time_ms: int | None = None

    @property
    def are_set(self) -> bool:
        """True if a batch may end before the end of what is there."""
        return any(limit is not None for limit in (self.max_offsets, self.max_bytes, self.max_time_ms))

    @property
    def need_samples(self) -> bool:
        """True if records must be looked at before a batch is planned."""
        return self.max_bytes is not None or self.max_time_ms is not None


class Sample(NamedTuple):
    """The next records of a partition, as many as one small Fetch brought.

    Attributes:
        bytes_per_offset: their mean size with their share of the batches; 0 if there are none.
        offsets: of the records, rising.
        times: their timestamps, in milliseconds.
        end: the offset behind all that was looked at.
    """

    bytes_per_offset: float
    offsets: Sequence[int]
    times: Sequence[int]
    end: int


Samples = Mapping[Partition, Sample]
FindTime = Callable[[int, Sequence[Partition]], Mapping[Partition, int]]
"""Finds for some partitions the first record that is as late as a time, or later; an offset of -1 if there is none."""


def must_wait(limits: Limits, available: int, waited_ms: int | None) -> bool:
    """True if there are too few offsets for a batch yet.

    Args:
        limits: of the batch.
        available: the offsets that are there.
        waited_ms: the time since the last batch; None before the first.
    """
    if limits.min_offsets is None or waited_ms is None:
        return False
    return available < limits.min_offsets and waited_ms < limits.max_delay_ms


def limit_ranges(ranges: Sequence[OffsetRange], limits: Limits, samples: Samples, find: FindTime) -> list[OffsetRange]:
    """Return what one batch reads of the ranges.

    Args:
        ranges: of all partitions, from the position to the end; some may be empty.
        limits: of the batch.
        samples: of the partitions with a range that is not empty, if the limits need them.
        find: finds records by their time.
    """
    if limits.max_time_ms is not None:
        return _limit_time(ranges, limits, limits.max_time_ms, samples, find)
    found = list(ranges)
    if limits.max_offsets is not None:
        found = _limit_offsets(found, limits.max_offsets)
    if limits.max_bytes is not None:
        found = _limit_bytes(found, limits.max_bytes, samples)
    return found


def _limit_offsets(ranges: Sequence[OffsetRange], limit: int) -> list[OffsetRange]:
    """Share a number of offsets by the sizes of ranges, as ``KafkaMicroBatchStream.rateLimit`` does."""
    total = sum(one.size for one in ranges)
    found = []
    for one in ranges:
        share = 0 if one.size == 0 else max(limit * one.size // total, 1)
        found.append(OffsetRange(one.partition, one.first, one.first + min(one.size, share)))
    return found


def _limit_bytes(ranges: Sequence[OffsetRange], limit: int, samples: Samples) -> list[OffsetRange]:
    """Share a number of bytes: the same part of each range."""
    total = _bytes_of(ranges, samples)
    if total <= limit:
        return list(ranges)
    part = limit / total
    return [
        OffsetRange(one.partition, one.first, one.first + min(one.size, max(math.floor(one.size * part), 1)))
        for one in ranges
    ]


def _bytes_of(ranges: Sequence[OffsetRange], samples: Samples) -> float:
    return sum(one.size * samples[one.partition].bytes_per_offset for one in ranges if one.size)


def _limit_time(
    ranges: Sequence[OffsetRange], limits: Limits, window_ms: int, samples: Samples, find: FindTime
) -> list[OffsetRange]:
    """End all ranges at one record time. It is halved until the other limits hold too, but not below a millisecond."""
    first_times = [samples[one.partition].times[0] for one in ranges if one.size and samples[one.partition].times]
    if not first_times:
        return list(ranges)  # markers and gaps, and no record
    begin = min(first_times)
    while True:
        until = begin + window_ms
        found = _find_ends(ranges, until, samples, find)
        if window_ms == _WINDOW_LEAST_MS or _fits(found, limits, samples):
            return found
        window_ms = max(window_ms // 2, _WINDOW_LEAST_MS)


def _fits(ranges: Sequence[OffsetRange], limits: Limits, samples: Samples) -> bool:
    return (limits.max_offsets is None or sum(one.size for one in ranges) <= limits.max_offsets) and (
        limits.max_bytes is None or _bytes_of(ranges, samples) <= limits.max_bytes
    )


def _find_ends(ranges: Sequence[OffsetRange], until: int, samples: Samples, find: FindTime) -> list[OffsetRange]:
    """End each range before its first record that is as late as ``until``."""
    earlier = [one.partition for one in ranges if one.size and _begins_before(samples[one.partition], until)]
    late = find(until, earlier) if earlier else {}
    found = []
    for one in ranges:
        end = one.first
        if one.partition in late:
            end = _end_of(one, late[one.partition], samples[one.partition], until)
        found.append(OffsetRange(one.partition, one.first, min(max(end, one.first), one.end)))
    return found


def _end_of(one: OffsetRange, late: int, sample: Sample, until: int) -> int:
    """The end of a range whose partition has its first record that is as late at ``late``."""
    if late < 0:
        return one.end
    if late > one.first:
        return late
    return _end_in_sample(sample, until)  # a record before the range is as late: times do not rise here


def _begins_before(sample: Sample, until: int) -> bool:
    return not sample.times or sample.times[0] < until


def _end_in_sample(sample: Sample, until: int) -> int:
    """The first offset of a sample whose record is as late, or the end of the sample."""
    return next(
        (offset for offset, time in zip(sample.offsets, sample.times, strict=True) if time >= until), sample.end
    )
