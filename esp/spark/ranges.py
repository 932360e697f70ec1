"""Ranges of offsets, and how they are divided into tasks: by the rules of Spark's Kafka source, and by bytes."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.consumer.messages import Partition


class OffsetRange(NamedTuple):
    """Offsets of a partition from ``first`` on, up to ``end``, which is not included."""

    partition: Partition
    first: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets; compaction and markers leave fewer records."""
        return self.end - self.first


def divide(
    ranges: Sequence[OffsetRange],
    min_parts: int | None,
    max_records: int | None,
    max_bytes: int | None,
    bytes_per_offset: Mapping[Partition, float],
) -> list[OffsetRange]:
    """Return the ranges of all tasks. Empty ranges are left out.

    Args:
        ranges: one for each partition.
        min_parts: so many tasks at least: larger ranges get more of them (Spark's ``KafkaOffsetRangeCalculator``).
        max_records: the offsets of a task.
        max_bytes: the bytes of a task, by ``bytes_per_offset``.
        bytes_per_offset: the mean size as seen.
    """
    parts = [one for one in ranges if one.size > 0]
    if max_records is not None:
        parts = [part for one in parts for part in _cut(one, math.ceil(one.size / max_records))]
    if max_bytes is not None:
        parts = [
            part
            for one in parts
            for part in _cut(
                one, math.ceil(one.size / _offsets_of(max_bytes, bytes_per_offset.get(one.partition, 0.0)))
            )
        ]
    if min_parts is None or len(parts) >= min_parts:
        return parts
    total = sum(one.size for one in parts)
    whole = [one for one in parts if _share(one.size, total, min_parts) == 1]
    total -= sum(one.size for one in whole)
    wanted = max(min_parts - len(whole), 1)
    small = set(whole)
    return [part for one in parts for part in ([one] if one in small else _cut(one, _share(one.size, total, wanted)))]


def _offsets_of(max_bytes: int, bytes_per_offset: float) -> float:
    """The number of offsets that have so many bytes, at least one."""
    return max(1, max_bytes // bytes_per_offset) if bytes_per_offset > 0 else math.inf


def _share(size: int, total: int, parts: int) -> int:
    """The number of parts of a range, rounded as Java rounds."""
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """A range in so many parts of about the same size, none of which is empty."""
    parts = max(1, min(parts, one.size))
    found = []
    first, left = one.first, one.size
    for number in range(parts):
        size = left // (parts - number)
        left -= size
        found.append(OffsetRange(one.partition, first, first + size))
        first += size
    return found
