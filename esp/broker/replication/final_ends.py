"""The ends of logs whose topics are gone: what the broker that led a partition last says of its offsets (FLOOR-3)."""

from collections.abc import Iterable, Iterator

from esp.broker.replication.hosted_partition import HostedPartition
from esp.controller.image import ClusterImage
from esp.controller.offset_floors import FinalEnd
from esp.model.ids import NodeId
from esp.model.offset_floor import PIECE_PARTITIONS, floor_of


def find_final_ends(image: ClusterImage, node_id: NodeId, gone: Iterable[HostedPartition]) -> Iterator[FinalEnd]:
    """The ends that the controller wants to know of this node.

    The node that led last may have learned of its election and of the deletion at once. Its log has every committed record then too, as
    it was in sync; and as it fetches no more, no leader before it can commit another one.

    Args:
        image: the metadata that says that the topics are gone.
        node_id: this node.
        gone: their replicas here, to which nothing is appended any more.
    """
    for hosted in gone:
        topic, number = hosted.name
        floors = image.offset_floors.get(topic, {})
        piece = floors.get(number // PIECE_PARTITIONS)
        is_wanted = (
            piece is not None and piece.topic_id == hosted.topic_id and floor_of(floors, number).asked == node_id
        )
        if is_wanted and not hosted.is_offline and not hosted.log.is_offline:
            yield FinalEnd(topic, hosted.topic_id, number, hosted.log.log_end_offset)
