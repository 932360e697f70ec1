"""The differences between any two images, for a receiver of an image without the records that lead to it (a snapshot, a first look)."""

from esp.controller.draft import changed_keys, missing_acls, purged_topics
from esp.controller.image import ClusterDelta, ClusterImage, TopicImage


def image_difference(before: ClusterImage, after: ClusterImage) -> ClusterDelta:
    """The change from ``before`` to ``after``, as the replay of the records between them would report it."""
    changed_partitions = {}
    changed_configs = []
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is topic:
            continue
        changed = _changed_partitions(known, topic)
        if changed:
            changed_partitions[topic_id] = changed
        if topic.configs != (known.configs if known is not None else {}):
            changed_configs.append(topic_id)
    return ClusterDelta(
        changed_partitions=changed_partitions,
        deleted_topics={
            topic_id: topic for topic_id, topic in before.topics_by_id.items() if topic_id not in after.topics_by_id
        },
        purged_topics=purged_topics(before.trashed_topics, after),
        changed_topic_configs=frozenset(changed_configs),
        changed_broker_configs=changed_keys(before.broker_configs, after.broker_configs),
        changed_brokers=changed_keys(before.brokers, after.brokers),
        removed_acls=missing_acls(before.acls, after.acls),
        added_acls=missing_acls(after.acls, before.acls),
        has_other_quotas=before.client_quotas is not after.client_quotas
        and before.client_quotas != after.client_quotas,
        changed_scram_credentials=changed_keys(before.scram_credentials, after.scram_credentials),
        changed_delegation_tokens=changed_keys(before.delegation_tokens, after.delegation_tokens),
    )


def _changed_partitions(before: TopicImage | None, after: TopicImage) -> frozenset[int]:
    known = before.partitions if before is not None else ()
    return frozenset(
        number
        for number, partition in enumerate(after.partitions)
        if number >= len(known) or known[number] != partition
    )
