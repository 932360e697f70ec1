"""The progress of a query in each partition, and the time for which the records that it has not read will be there. Pure."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from esp.checkpoints.batch_files import Place
from esp.checkpoints.checkpoint import Checkpoint
from esp.model.unread_records import HeldRecords, Unread, judge_unread


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


def report(
    checkpoint: Checkpoint,
    held: Mapping[Place, HeldRecords],
    times_ms: Mapping[Place, int],
    now_ms: int,
    recreated: Mapping[str, str] = MappingProxyType({}),
) -> list[Progress]:
    """Return the progress in all partitions, sorted.

    Args:
        checkpoint: the query's.
        held: the partitions of its topics that the cluster has.
        times_ms: the timestamps of the first records that are not read, in milliseconds since 1970.
        now_ms: the time, likewise.
        recreated: what is known of each topic that was created again: the query's offsets are those of the old one.
    """
    offsets = checkpoint.offsets
    under_way = dict(_all(checkpoint))
    found = []
    for place in sorted({*offsets, *held, *under_way}):
        offset, here = offsets.get(place), held.get(place)
        unread = judge_unread(offset, here, times_ms.get(place), now_ms)
        note = "not known to the query yet" if here is not None and offset is None else unread.note
        if offset is not None and here is not None and place.topic in recreated:
            unread, note = Unread(None, None, None, ""), recreated[place.topic]
        found.append(
            Progress(
                place,
                offset,
                under_way.get(place),
                here and here.end,
                unread.lag,
                unread.behind_ms,
                unread.loss_ms,
                note,
            )
        )
    return found


def _all(checkpoint: Checkpoint) -> Iterable[tuple[Place, int]]:
    for _, offsets in checkpoint.under_way.kafka_sources() if checkpoint.under_way is not None else ():
        yield from offsets.items()
