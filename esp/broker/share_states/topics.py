"""The topics of the cluster, as share coordinators ask for them."""

from esp.broker.cluster_view.cache import MetadataCache
from esp.model.ids import TopicId


class MetadataTopics:
    """Answers from the newest applied image.

    Args:
        metadata: as clients are told.
    """

    def __init__(self, metadata: MetadataCache) -> None:
        self._metadata = metadata

    def has(self, topic_id: TopicId, partition: int) -> bool:
        """True if there is such a partition."""
        topic = self._metadata.image.topics_by_id.get(topic_id)
        return topic is not None and partition < len(topic.partitions)

    def is_gone(self, topic_id: TopicId) -> bool:
        """True if there is no such topic, in the trash neither."""
        image = self._metadata.image
        return topic_id not in image.topics_by_id and topic_id not in image.trashed_topics
