"""The position of a stream: the offset of the next record of each partition, in memory and in Spark's checkpoint."""

import base64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.spark.ranges import OffsetRange

Offsets = dict[Partition, int]
Position = Mapping[Partition, int]


class Recreated(NamedTuple):
    """A topic that was deleted and created again, and its ids; the old one is empty if it is not known any more."""

    topic: str
    old_id: bytes
    new_id: bytes

    def __str__(self) -> str:
        return f"topic {self.topic} was deleted and created again (id {_text(self.old_id)}, now {_text(self.new_id)})"


def _text(topic_id: bytes) -> str:
    """An id as Kafka's tools write it."""
    if not topic_id:
        return "deleted with its offsets"
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def to_json(position: Position) -> dict[str, dict[str, int]]:
    """The offsets as Spark's Kafka source has them in its checkpoints, in its order: ``{"topic": {"0": 23}}``."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(position.items()):
        topics.setdefault(partition.topic, {})[str(partition.number)] = offset
    return topics


def from_json(offsets: Any) -> Offsets:
    """Return the position that stands in a checkpoint.

    Raises:
        ConsumerError: the checkpoint is one of another source.
    """
    try:
        return {
            Partition(topic, int(number)): _whole(offset)
            for topic, partitions in offsets.items()
            for number, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ConsumerError(
            f"the checkpoint holds {offsets!r} where offsets of topics are expected, and is one of another source: "
            "use another checkpointLocation"
        ) from error


def _whole(offset: Any) -> int:
    if type(offset) is not int or offset < 0:
        raise ValueError(offset)
    return offset


def find_recreated(known: Mapping[str, bytes], now: Mapping[str, bytes]) -> list[Recreated]:
    """Return the topics whose ids differ. One whose id is of zeros, now or then, has none that is known, and is taken for the same."""
    return [
        Recreated(topic, known[topic], topic_id)
        for topic, topic_id in sorted(now.items())
        if topic in known and known[topic] != topic_id and any(topic_id) and (any(known[topic]) or not known[topic])
    ]


def find_backlog(position: Position, latest: Position, bounds: Position | None) -> list[OffsetRange]:
    """Return the ranges of offsets that are there and not read yet, one for each partition of ``latest``.

    Args:
        position: of the stream. A partition that it does not have was added since, and is read from its start.
        latest: the ends of partitions, at the position or behind it.
        bounds: the ends of the stream; a partition without one has no end, a stream without bounds neither.
    """
    ranges = []
    for partition, end in latest.items():
        first = position.get(partition, 0)
        bound = end if bounds is None else bounds.get(partition, end)
        ranges.append(OffsetRange(partition, first, max(first, min(end, bound))))
    return ranges


def find_added(position: Position, ends: Position) -> list[Partition]:
    """Return the partitions that a batch reads for the first time, in order."""
    return sorted(ends.keys() - position.keys())


def ranges_between(start: Position, end: Position) -> list[OffsetRange]:
    """Return what a batch reads. A partition that goes back begins anew there, with the next batch."""
    return [OffsetRange(partition, min(start.get(partition, 0), offset), offset) for partition, offset in end.items()]


def ends_of(ranges: Iterable[OffsetRange]) -> Offsets:
    """The position behind some ranges."""
    return {one.partition: one.end for one in ranges}
