"""The minimum of in-sync replicas that a leader may have gone by, by the partition epoch of the ISR that it went by (ELR-3).

A leader takes an ISR and the minimum that counts with it from one state of the metadata; from an answer to AlterPartition it takes an ISR
under the same minimum, because another one gives the partition another epoch. So what it commits is judged by the minimum that counted in
that epoch: a greater one of later that it has not heard of is no matter, and a lesser one is no excuse.
"""

from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ClusterImage, TopicImage
from esp.model.ids import TopicId


class Minimums:
    """Remembers, for each partition, from which of its epochs on which minimum counted."""

    def __init__(self) -> None:
        self._known: dict[tuple[TopicId, int], list[tuple[int, int]]] = {}

    def on_change(self, old: ClusterImage, new: ClusterImage) -> None:
        """One batch of the metadata log was committed: no leader goes by anything between the image before it and the one after it."""
        has_other_default = default_minimum(old) != default_minimum(new)
        for topic_id, topic in new.topics_by_id.items():
            before = old.topics_by_id.get(topic_id)
            if before is not topic or has_other_default:
                self._on_topic(new, topic)

    def _on_topic(self, new: ClusterImage, topic: TopicImage) -> None:
        for state in topic.partitions:
            minimum = new.min_insync_replicas(topic, len(state.replicas))
            entries = self._known.setdefault((topic.topic_id, state.partition), [])
            if not entries or minimum != entries[-1][1]:
                entries.append((state.partition_epoch, minimum))

    def least(self, topic_id: TopicId, partition: int, partition_epoch: int) -> int:
        """The least minimum that counted while the partition had that epoch."""
        least = 1
        last_epoch = -1
        for epoch, minimum in self._known.get((topic_id, partition), ()):
            if epoch > partition_epoch:
                break
            least = min(least, minimum) if epoch == partition_epoch == last_epoch else minimum
            last_epoch = epoch
        return least

    def least_since(self, topic_id: TopicId, partition: int, partition_epoch: int) -> int:
        """The least minimum that counted in that epoch of the partition or in any later one.

        A leader that has not heard of a later epoch may count on a copy that a reassignment has removed meanwhile.
        """
        later = [minimum for epoch, minimum in self._known.get((topic_id, partition), ()) if epoch > partition_epoch]
        return min([self.least(topic_id, partition, partition_epoch), *later])


def default_minimum(image: ClusterImage) -> str | None:
    """The setting of all brokers, as it stands in the metadata."""
    return image.broker_configs.get(CLUSTER_DEFAULT, {}).get(MIN_INSYNC_REPLICAS)
