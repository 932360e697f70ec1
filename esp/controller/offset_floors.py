"""Offsets that never go back: a topic that is created again goes on where the topic of its name has ended (FLOOR-1 to FLOOR-4).

A floor stands in settings of the name, which outlive the topic: ConfigRecords of the type topic, ``esp.offset.floors.N``. Kafka keeps such
a record, and its tools show it. When a topic is deleted, its floors are written behind its RemoveTopicRecord in the same decision. They are
upper bounds then, which need no answer: no log of the topic ends beyond its span. The broker that led a partition last says
in a heartbeat where its log has ended, and the floor falls to that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Final, NamedTuple

from esp.controller.brokers import require_broker_epoch
from esp.controller.decision import Decision
from esp.controller.floor_records import floor_record, floor_records, format_piece
from esp.controller.image import ClusterImage, TopicImage
from esp.controller.leadership import is_active_broker
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE, BrokerEpoch, NodeId, TopicId
from esp.model.offset_floor import (
    FLOOR_MAX,
    NO_FLOOR,
    OFFSET_SPAN,
    PIECE_PARTITIONS,
    FloorPiece,
    PartitionFloor,
    count_partitions,
    divide_floors,
    floor_of,
)
from esp.schemas.metadata_records import ConfigRecord

NAMES_MAX: Final = 100_000
"""Names without a topic whose floors are kept; beyond that, those that lost their topic first are forgotten."""


class FinalEnd(NamedTuple):
    """The end of the log of a partition whose topic is gone, as the broker says that led it last."""

    topic: str
    topic_id: TopicId
    partition: int
    end_offset: int


def plan_floors(image: ClusterImage, deleted: Sequence[TopicImage]) -> Iterator[ConfigRecord]:
    """The records that go behind the RemoveTopicRecords of topics: what is remembered of their offsets (FLOOR-1).

    Of a topic whose offsets begin again from 0, nothing is, and what was known of the name is forgotten.
    """
    continued = [topic for topic in deleted if image.continues_offsets(topic.name, topic.configs)]
    for topic in deleted:
        if topic not in continued:
            yield from forget_floors(image, topic.name)
    for topic in continued:
        known = image.offset_floors.get(topic.name, {})
        count = max(len(topic.partitions), count_partitions(known))
        floors = tuple(_floor_after(topic, floor_of(known, partition), partition) for partition in range(count))
        yield from floor_records(topic.name, divide_floors(topic.topic_id, floors))
    yield from _plan_forgotten(image, {topic.name for topic in continued})


def forget_floors(image: ClusterImage, name: str) -> Iterator[ConfigRecord]:
    """The records by which nothing is known of a name's offsets any more."""
    for number in image.offset_floors.get(name, {}):
        yield floor_record(name, number, None)


def starting_floors(image: ClusterImage, name: str, configs: Mapping[str, str]) -> Callable[[int], PartitionFloor]:
    """The floor of each partition that a topic of this name and these settings gets (FLOOR-2).

    The returned function raises ApiError(INVALID_REQUEST) for a partition that has no offsets left.
    """
    floors = image.offset_floors.get(name)
    if floors is None or not image.continues_offsets(name, configs):
        return lambda _partition: NO_FLOOR
    known = floors

    def find(partition: int) -> PartitionFloor:
        floor = floor_of(known, partition)
        if floor.offset > FLOOR_MAX:
            raise ApiError(
                ErrorCode.invalid_request,
                f"Partition {partition} of topics named '{name}' has used its offsets up to {floor.offset}, and no topic begins above"
                f" {FLOOR_MAX}. Create the topic with topic.recreate.offsets=reset; its offsets then begin at 0.",
            )
        return floor

    return find


def decide_final_ends(
    image: ClusterImage, node_id: NodeId, broker_epoch: BrokerEpoch, ends: Sequence[FinalEnd]
) -> Decision[None]:
    """Lower floors to the ends of logs (FLOOR-3).

    An end counts while its name has no topic: a new one may have begun at the higher floor. And it counts only from the broker that led
    the partition last: another one's log may be shorter.

    Raises:
        ApiError: STALE_BROKER_EPOCH.
    """
    require_broker_epoch(image, node_id, broker_epoch)
    changed: dict[tuple[str, int], FloorPiece] = {}
    for end in ends:
        number, index = divmod(end.partition, PIECE_PARTITIONS)
        key = end.topic, number
        piece = changed.get(key) or image.offset_floors.get(end.topic, {}).get(number)
        if piece is None or piece.topic_id != end.topic_id or end.topic in image.topics_by_name:
            continue
        if not 0 <= index < len(piece.floors) or piece.floors[index].asked != node_id:
            continue
        floor = piece.floors[index]
        exact = PartitionFloor(max(end.end_offset, floor.least), floor.next_epoch)
        changed[key] = replace(piece, floors=(*piece.floors[:index], exact, *piece.floors[index + 1 :]))
    return Decision(
        tuple(floor_record(name, number, format_piece(piece)) for (name, number), piece in changed.items()), None
    )


def are_settled(image: ClusterImage, name: str, topic_id: TopicId) -> bool:
    """True if no broker that serves is yet to say where the logs of a deleted topic have ended."""
    return not any(
        not floor.is_exact and is_active_broker(image, floor.asked)
        for piece in image.offset_floors.get(name, {}).values()
        if piece.topic_id == topic_id
        for floor in piece.floors
    )


def _floor_after(topic: TopicImage, known: PartitionFloor, partition: int) -> PartitionFloor:
    """The floor of a partition when its topic has just been deleted."""
    if partition >= len(topic.partitions):
        return known
    state = topic.partitions[partition]
    bound = max(known.offset, state.start_offset + OFFSET_SPAN)
    least = max(state.start_offset, known.offset)
    next_epoch = max(known.next_epoch, state.leader_epoch + 1)
    if state.leader == NO_NODE or least >= bound:
        return PartitionFloor(bound, next_epoch)
    return PartitionFloor(bound, next_epoch, asked=state.leader, least=least)


def _plan_forgotten(image: ClusterImage, kept: Set[str]) -> Iterator[ConfigRecord]:
    """The records that keep the number of names within bounds; a name whose topic lives is no burden of its own."""
    surplus = len(image.offset_floors) + sum(name not in image.offset_floors for name in kept) - NAMES_MAX
    if surplus <= 0:
        return
    oldest = (name for name in image.offset_floors if name not in kept and name not in image.topics_by_name)
    for name in islice(oldest, surplus):
        yield from forget_floors(image, name)
