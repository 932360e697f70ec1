"""INV-TRASH: a restored topic is the one that was deleted, and a purged one never comes back (TRASH-1, TRASH-3, TRASH-5).

The records of a restored topic are held against those that were committed before its deletion by the checkers that follow every
partition: they know partitions by the id of the topic, which stays.
"""

from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import TopicId
from esp.simulation.checkers.violation import ViolationError


class TrashChecker:
    """Follows deleted topics."""

    def __init__(self) -> None:
        self._trashed: dict[TopicId, TopicImage] = {}
        self._purged: dict[TopicId, None] = {}
        self.restored = 0
        """Topics that were restored."""

    def on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        """The metadata has changed. Raises ViolationError."""
        if old.trashed_topics is new.trashed_topics:
            return
        for topic_id, trashed in new.trashed_topics.items():
            if topic_id in new.topics_by_id or topic_id in self._purged:
                raise ViolationError(
                    "INV-TRASH", trashed.topic.name, "is in the trash, and was purged or is there as well"
                )
            self._trashed[topic_id] = trashed.topic
        for topic_id in old.trashed_topics:
            if topic_id in new.trashed_topics:
                continue
            before, after = self._trashed.pop(topic_id), new.topics_by_id.get(topic_id)
            if after is None:
                self._purged[topic_id] = None
            else:
                self.restored += 1
                self._check(before, after)
        for topic_id in self._purged:
            if topic_id in new.topics_by_id:
                raise ViolationError("INV-TRASH", new.topics_by_id[topic_id].name, "was purged, and is there again")

    @staticmethod
    def _check(before: TopicImage, after: TopicImage) -> None:
        if (before.name, before.configs, len(before.partitions)) != (after.name, after.configs, len(after.partitions)):
            raise ViolationError("INV-TRASH", before.name, f"is restored as {after}, and was {before}")
        for was, state in zip(before.partitions, after.partitions, strict=True):
            who = f"{before.name}-{was.partition}"
            if state.leader_epoch <= was.leader_epoch or state.partition_epoch <= was.partition_epoch:
                raise ViolationError("INV-TRASH", who, f"{state} after {was}")
            complete = {*was.isr, *was.elr}
            candidates = {*state.isr, *state.elr}
            if state.replicas == was.replicas and not candidates <= complete:
                raise ViolationError(
                    "INV-TRASH", who, f"{candidates - complete} had not all records: {state} after {was}"
                )
