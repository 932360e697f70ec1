"""The progress of a query in each partition, and the time for which the records that it has not read will be there. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from esp.checkpoints.batch_files import Place
from esp.checkpoints.checkpoint import Checkpoint


class Held(NamedTuple):
    """A partition as a cluster holds it: its first offset, and the offset that its next record gets."""

    earliest: int
    end: int


class Progress(NamedTuple):
    """A query's progress in one partition; None for what is not known.

    Attributes:
        place: the partition.
        offset: the offset that the query goes on from; None: it does not know the partition yet.
        batch_end: the offset up to which the batch goes that is planned and not done.
        end: the offset that the partition's next record gets.
        lag: the number of offsets that the query has not read.
        behind_ms: the age of the first record that it has not read.
        loss_ms: the time until retention may delete that record; negative: it may at any moment.
        note: what is wrong, in words; empty if nothing is.
    """

    place: Place
    offset: int | None
    batch_end: int | None
    end: int | None
    lag: int | None
    behind_ms: int | None
    loss_ms: int | None
    note: str


def unread(offsets: Mapping[Place, int], held: Mapping[Place, Held]) -> dict[Place, int]:
    """The offsets of the first records that are there and not read, of the partitions that have one."""
    first = {place: max(offset, held[place].earliest) for place, offset in offsets.items() if place in held}
    return {place: offset for place, offset in first.items() if offset < held[place].end}


def report(
    checkpoint: Checkpoint,
    held: Mapping[Place, Held],
    times_ms: Mapping[Place, int],
    retention_ms: Mapping[str, int | None],
    now_ms: int,
) -> list[Progress]:
    """Return the progress in all partitions, sorted.

    Args:
        checkpoint: the query's.
        held: the partitions of its topics that the cluster has.
        times_ms: the timestamps of the first records that are not read (:func:`unread`), in milliseconds since 1970.
        retention_ms: how long each topic keeps records; None: for ever.
        now_ms: the time, likewise.
    """
    offsets = checkpoint.offsets
    under_way = dict(_all(checkpoint))
    found = []
    for place in sorted({*offsets, *held, *under_way}):
        offset, here = offsets.get(place), held.get(place)
        behind_ms = now_ms - times_ms[place] if place in times_ms else None
        keeps_ms = retention_ms.get(place.topic)
        found.append(
            Progress(
                place,
                offset,
                under_way.get(place),
                here and here.end,
                None if here is None or offset is None else max(0, here.end - offset),
                behind_ms,
                None if behind_ms is None or keeps_ms is None else keeps_ms - behind_ms,
                _note(offset, here),
            )
        )
    return found


def _all(checkpoint: Checkpoint) -> Iterable[tuple[Place, int]]:
    for _, offsets in checkpoint.under_way.kafka_sources() if checkpoint.under_way is not None else ():
        yield from offsets.items()


def _note(offset: int | None, here: Held | None) -> str:
    if here is None:
        return "the partition is not there any more"
    if offset is None:
        return "not known to the query yet"
    if offset > here.end:
        return "beyond the end: the topic was deleted and created again, or lost records"
    if offset < here.earliest:
        return f"{here.earliest - offset} unread records are gone"
    return ""
