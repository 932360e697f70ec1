"""Topics that are deleted while groups hold them: each group that loses records so is named before the deletion is answered (HOLD-7)."""

from collections.abc import Callable

from esp.controller.image import ClusterImage
from esp.model.ids import TopicId, TopicPartition
from esp.settings.topic_overrides import read_hold_groups
from esp.simulation.checkers import probe
from esp.simulation.checkers.hold_checker import HoldChecker
from esp.simulation.checkers.log_start_checker import LogStartChecker
from esp.simulation.nodes_tier.world import World

OnDeleted = Callable[[TopicId | None], None]


class HeldDeletions:
    """Compares what the log says of a deletion with what was there when a broker was asked for it.

    Args:
        world: has the nodes.
        image: the newest committed metadata.
        log_starts: knows what is committed, and what may be gone.
        holds: knows what groups have read, and what nodes have said.
    """

    def __init__(
        self, world: World, image: Callable[[], ClusterImage], log_starts: LogStartChecker, holds: HoldChecker
    ) -> None:
        self._world = world
        self._image = image
        self._log_starts = log_starts
        self._holds = holds

    def on_deleting(self, name: str) -> OnDeleted:
        """A broker is about to be asked to delete a topic.

        Returns:
            a function that takes the id of the topic that was deleted, when this is answered. It raises ViolationError: INV-HOLD.
        """
        topic = self._image().topics_by_name.get(name)
        groups = () if topic is None else read_hold_groups(topic.configs)
        if topic is None or not groups or not self._is_known(topic.topic_id):
            return _nothing
        asked_s, asked_id = self._world.loop.time(), topic.topic_id
        ends = {number: self._find_end(topic.topic_id, number) for number in range(len(topic.partitions))}

        def on_deleted(topic_id: TopicId | None) -> None:
            if topic_id != asked_id:
                return
            for number, end_offset in ends.items():
                key = asked_id, number
                if end_offset is not None and self._log_starts.knows_start(key):
                    start_offset = self._log_starts.permitted(key)
                    self._holds.on_topic_deleted(
                        TopicPartition(name, number), groups, start_offset, end_offset, asked_s
                    )

        return on_deleted

    def _is_known(self, topic_id: TopicId) -> bool:
        """True if every broker that may be asked knows the topic: a setting counts on a node from when the node has applied it."""
        nodes = self._world.nodes
        alive = [nodes[number] for number in self._world.profile.layout.brokers if nodes[number].is_alive]
        return all(topic_id in probe.told_image(node).topics_by_id for node in alive)

    def _find_end(self, topic_id: TopicId, number: int) -> int | None:
        """The end that any broker may report which takes itself for the leader, a former one too; None if there is none."""
        key = topic_id, number
        marks = [
            hosted.log.high_watermark
            for node in self._world.nodes.values()
            for hosted in probe.hosted_partitions(node)
            if hosted.leader is not None and (hosted.topic_id, hosted.name.partition) == key
        ]
        return min((*marks, self._log_starts.committed_end(key))) if marks else None


def _nothing(_topic_id: TopicId | None) -> None:
    """Compare nothing."""
