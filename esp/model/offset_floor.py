"""Offset floors: the offsets at which partitions of a name go on when a topic of that name is created again (FLOOR-1)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from esp.model.ids import NO_NODE, NodeId, TopicId

CONTINUE: Final = "continue"
"""The value of ``topic.recreate.offsets`` with which offsets go on."""

RESET: Final = "reset"
"""Its other value: offsets begin at 0."""

OFFSET_SPAN: Final = 2**48
"""The offsets that one topic of a name may use in a partition, from its start on: no log of a topic whose offsets go on ends beyond that.

It is above the end of every log whose leader cannot be asked any more. A partition that takes a million records each second needs nine
years for as many.
"""

OFFSET_RESERVE: Final = 2**32
"""The last offsets of the span are left to markers of transactions, which no leader refuses."""

FLOOR_MAX: Final = 2**62
"""No topic begins above this offset: half of all offsets are left for its records."""

PIECE_PARTITIONS: Final = 500
"""Floors of so many partitions stand in one record, whose text Kafka reads only up to 32,767 characters."""


@dataclass(frozen=True, slots=True)
class PartitionFloor:
    """The place at which a partition goes on.

    ``offset`` is at or above each offset that any record of the name's partition had, ``next_epoch`` above each leader epoch. While
    ``asked`` names a node, the offset is an upper bound: that node led the partition last, and the end of its log is the exact floor, if
    that is not below ``least``.
    """

    offset: int
    next_epoch: int
    asked: NodeId = NO_NODE
    least: int = 0

    @property
    def is_exact(self) -> bool:
        """True if nothing better will be known."""
        return self.asked == NO_NODE


NO_FLOOR: Final = PartitionFloor(0, 0)


@dataclass(frozen=True, slots=True)
class FloorPiece:
    """The floors of some partitions of a name that follow one another, and the topic that had the name last."""

    topic_id: TopicId
    floors: tuple[PartitionFloor, ...]


NameFloors = Mapping[int, FloorPiece]
"""The floors of a name, by the number of the piece: partition ``p`` stands in piece ``p // PIECE_PARTITIONS``."""


def floor_of(floors: NameFloors, partition: int) -> PartitionFloor:
    """The floor of one partition; nothing is known of one that never was."""
    number, index = divmod(partition, PIECE_PARTITIONS)
    piece = floors.get(number)
    return NO_FLOOR if piece is None or index >= len(piece.floors) else piece.floors[index]


def count_partitions(floors: NameFloors) -> int:
    """The number of partitions from 0 on of which floors are known."""
    return max((number * PIECE_PARTITIONS + len(piece.floors) for number, piece in floors.items()), default=0)


def divide_floors(topic_id: TopicId, floors: tuple[PartitionFloor, ...]) -> NameFloors:
    """The floors of partition 0 and those that follow, in pieces."""
    return {
        begin // PIECE_PARTITIONS: FloorPiece(topic_id, floors[begin : begin + PIECE_PARTITIONS])
        for begin in range(0, len(floors), PIECE_PARTITIONS)
    }
