"""The consequence of another ``min.insync.replicas`` for partitions: a greater one gives them another epoch (ELR-3).

A leader takes the minimum from the metadata that it has applied, and the ISR that it has proposed from the answer to AlterPartition, which
may come first. Suppose that a proposal from before the new minimum were applied after it. Then the leader would go on committing by the old
minimum, with an ISR that is too small by the new one, while the controller counts the replicas that left that ISR as eligible leaders. With
another partition epoch such a proposal is refused, and the leader proposes anew when it knows the epoch, and the minimum with it
(``docs/decisions/0035-another-minimum-another-epoch.md``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ClusterImage, TopicImage
from esp.model.ids import NO_NODE
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)


def plan_epochs_of_raised_minimums(
    image: ClusterImage, records: Sequence[MetadataRecord]
) -> Iterator[PartitionChangeRecord]:
    """The records that give another epoch to each partition of which ``records`` raise the effective minimum.

    A partition whose eligible leaders ``records`` clear has another epoch by that. A partition without a leader needs none: there is no
    leader to propose anything, and the next one knows the minimum with its election.

    Args:
        image: the state on which ``records`` were decided.
        records: all records of one decision.
    """
    changed = [record for record in records if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS]
    if not changed:
        return
    of_topics = {record.resource_name: record.value for record in changed if record.resource_type == TOPIC_RESOURCE}
    of_all = [
        record.value
        for record in changed
        if record.resource_type == BROKER_RESOURCE and record.resource_name == CLUSTER_DEFAULT
    ]
    after = image
    if of_all:
        defaults = _with(image.broker_configs.get(CLUSTER_DEFAULT, {}), of_all[-1])
        after = replace(image, broker_configs={**image.broker_configs, CLUSTER_DEFAULT: defaults})
    cleared = {record.topic_name for record in records if isinstance(record, ClearElrRecord)}
    named = (topic for name in of_topics if (topic := image.topics_by_name.get(name)) is not None)
    for topic in image.topics_by_id.values() if of_all else named:
        changed_topic = topic
        if topic.name in of_topics:
            changed_topic = replace(topic, configs=_with(topic.configs, of_topics[topic.name]))
        old, new = image.min_insync_replicas(topic), after.min_insync_replicas(changed_topic)
        yield from _raise(topic, old, new, is_cleared=not cleared.isdisjoint((topic.name, "")))


def plan_kept_candidates(image: ClusterImage, clear: ClearElrRecord) -> Iterator[PartitionChangeRecord]:
    """The records that, after ``clear``, bring back replicas that are known to be complete where no replica is in sync.

    Such a partition has no leader, so that nothing is committed by either minimum before a leader that knows the new one is elected; and
    without the records the partition would wait for an unclean election. Kafka forgets these replicas.
    """
    topics = image.topics_by_id.values() if not clear.topic_name else (image.topics_by_name[clear.topic_name],)
    for topic in topics:
        for state in topic.partitions:
            if not state.isr and (state.elr or state.last_known_elr):
                yield PartitionChangeRecord(
                    partition_id=state.partition,
                    topic_id=topic.topic_id,
                    eligible_leader_replicas=state.elr,
                    last_known_elr=state.last_known_elr,
                )


def _raise(topic: TopicImage, old: int, new: int, *, is_cleared: bool) -> Iterator[PartitionChangeRecord]:
    for state in topic.partitions:
        count = len(state.replicas)
        has_another_epoch = is_cleared and (state.elr or state.last_known_elr)
        if min(new, count) > min(old, count) and state.leader != NO_NODE and not has_another_epoch:
            yield PartitionChangeRecord(partition_id=state.partition, topic_id=topic.topic_id)


def _with(configs: Mapping[str, str], value: str | None) -> Mapping[str, str]:
    rest = {name: other for name, other in configs.items() if name != MIN_INSYNC_REPLICAS}
    return rest if value is None else {**rest, MIN_INSYNC_REPLICAS: value}
