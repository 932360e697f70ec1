"""The committed offsets of groups that hold the records of partitions against retention (HOLD-1)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from esp.groups.group_patterns import group_patterns
from esp.groups.offset_store import OffsetStore
from esp.model.ids import TopicPartition


class HeldPosition(NamedTuple):
    """The first offset of a partition that a group has not read."""

    group_id: str
    partition: TopicPartition
    offset: int


def find_held_positions(store: OffsetStore, wanted: Mapping[TopicPartition, Sequence[str]]) -> list[HeldPosition]:
    """Return the offsets of the groups that hold these partitions.

    An offset that is on its way into the log counts where it is lower than the committed one, so that a group that goes back finds the
    records there when it is answered.

    Args:
        store: one coordinator's offsets.
        wanted: by partition the groups of ``retention.hold.groups``, names and patterns.
    """
    patterns = {partition: group_patterns(tuple(names)) for partition, names in wanted.items()}
    found: dict[tuple[str, TopicPartition], int] = {}
    for group_id in store.committed_groups():
        offsets = store.committed(group_id)
        for partition in offsets.keys() & wanted.keys():
            if patterns[partition].matches(group_id):
                found[group_id, partition] = offsets[partition].offset
    for change in store.pending():
        key = change.group_id, change.partition
        if change.value is not None and key in found:
            found[key] = min(found[key], change.value.offset)
    return [HeldPosition(group_id, partition, offset) for (group_id, partition), offset in found.items()]
