"""INV-TRASH: a deleted topic is in the trash if its settings say so, a restored one is the one that was deleted, and a purged one never
comes back; none goes early (TRASH-1, TRASH-3, TRASH-5).

The records of a restored topic are held against those that were committed before its deletion by the checkers that follow every
partition: they know partitions by the id of the topic, which stays.
"""

from collections.abc import Callable, Container, Iterable
from typing import Final

from esp.controller.image import TRASH_RETENTION, ClusterImage, TopicImage, TrashedTopic
from esp.controller.trash import GRACE_MS
from esp.model.ids import TopicId, TopicPartition
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError

CLOCK_SLACK: Final = 0.85
"""The part of a time that has passed by the world's clock when it is over by a node's, which is up to a tenth too fast."""

COMMIT_S: Final = 10.0
"""The longest time between a deletion, from which on its time in the trash runs, and the moment at which it is seen to be committed."""


def check_restored_transactions(
    name: TopicPartition, batches: Iterable[BatchView], restored_epoch: int, producer_ids: Container[int]
) -> None:
    """Transactions that were open in a partition in the trash end before its first leader after that takes anything (TRASH-4).

    Args:
        name: of the partition.
        batches: all that are committed, in order.
        restored_epoch: the leader epoch in which it came back.
        producer_ids: those of transactional producers.

    Raises:
        ViolationError: INV-TRASH.
    """
    opened: dict[int, BatchView] = {}
    for batch in batches:
        if batch.is_control:
            opened.pop(batch.producer_id, None)
        elif opened and batch.leader_epoch >= restored_epoch:
            break
        elif batch.producer_id in producer_ids and batch.leader_epoch < restored_epoch:
            opened[batch.producer_id] = batch
    if opened:
        first = next(iter(opened.values()))
        raise ViolationError(
            "INV-TRASH", f"{name}", f"came back in epoch {restored_epoch}, and the transaction of {first} was left open"
        )


class TrashChecker:
    """Follows deleted topics."""

    def __init__(self) -> None:
        self.is_asked: Callable[[TopicId], bool] = lambda _topic_id: False
        """True of a topic if an administrator, or a node that lacks room, has asked for its purge."""
        self._trashed: dict[TopicId, TopicImage] = {}
        self._purged: dict[TopicId, None] = {}
        self._trashed_s: dict[TopicId, float] = {}
        self.restored = 0
        """Topics that were restored."""
        self.early = 0
        """Topics that were purged before their time, on request."""

    def on_change(self, old: ClusterImage, new: ClusterImage, now_s: float) -> None:
        """The metadata has changed. Raises ViolationError."""
        if old.topics_by_id is not new.topics_by_id:
            self._check_deleted(old, new)
        if old.trashed_topics is new.trashed_topics:
            return
        for topic_id, trashed in new.trashed_topics.items():
            if topic_id in new.topics_by_id or topic_id in self._purged:
                raise ViolationError(
                    "INV-TRASH", trashed.topic.name, "is in the trash, and was purged or is there as well"
                )
            self._trashed[topic_id] = trashed.topic
            self._trashed_s.setdefault(topic_id, now_s)
        for topic_id, trashed in old.trashed_topics.items():
            if topic_id in new.trashed_topics:
                continue
            before, after = self._trashed.pop(topic_id), new.topics_by_id.get(topic_id)
            lived_s = now_s - self._trashed_s.pop(topic_id)
            if after is None:
                self._purged[topic_id] = None
                self._check_purge(topic_id, trashed, lived_s)
            else:
                self.restored += 1
                self._check(before, after)
        for topic_id in self._purged:
            if topic_id in new.topics_by_id:
                raise ViolationError("INV-TRASH", new.topics_by_id[topic_id].name, "was purged, and is there again")

    def _check_deleted(self, old: ClusterImage, new: ClusterImage) -> None:
        for topic_id, topic in old.topics_by_id.items():
            if topic_id in new.topics_by_id or topic_id in new.trashed_topics or self.is_asked(topic_id):
                continue
            if int(topic.configs.get(TRASH_RETENTION, "0")) > 0:
                raise ViolationError("INV-TRASH", topic.name, f"was deleted, and is not in the trash: {topic.configs}")

    def _check_purge(self, topic_id: TopicId, trashed: TrashedTopic, lived_s: float) -> None:
        """None is purged before its time, or a moment of grace under a new controller, without a request (TRASH-5, TRASH-6)."""
        least_s = min(trashed.until_ms - trashed.trashed_ms, GRACE_MS) / 1000 * CLOCK_SLACK - COMMIT_S
        if lived_s >= least_s:
            return
        if not self.is_asked(topic_id):
            raise ViolationError(
                "INV-TRASH",
                trashed.topic.name,
                f"was purged after {lived_s:.1f} s in the trash, without a request: {trashed}",
            )
        self.early += 1

    @staticmethod
    def _check(before: TopicImage, after: TopicImage) -> None:
        if (before.name, before.configs, len(before.partitions)) != (after.name, after.configs, len(after.partitions)):
            raise ViolationError("INV-TRASH", before.name, f"is restored as {after}, and was {before}")
        for was, state in zip(before.partitions, after.partitions, strict=True):
            who = f"{before.name}-{was.partition}"
            # Without a leader since the last time the epoch stays: every log is as it was then.
            least_epoch = was.leader_epoch if was.restored_epoch == was.leader_epoch else was.leader_epoch + 1
            if state.leader_epoch < least_epoch or state.partition_epoch <= was.partition_epoch:
                raise ViolationError("INV-TRASH", who, f"{state} after {was}")
            complete = {*was.isr, *was.elr}
            candidates = {*state.isr, *state.elr}
            if state.replicas == was.replicas and not candidates <= complete:
                raise ViolationError(
                    "INV-TRASH", who, f"{candidates - complete} had not all records: {state} after {was}"
                )
