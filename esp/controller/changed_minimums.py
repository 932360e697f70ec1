"""The consequences of another ``min.insync.replicas``: with a greater one another epoch, and which replicas stay eligible (ELR-3).

A leader takes the minimum from the metadata that it has applied, and the ISR that it has proposed from the answer to AlterPartition, which
may come first. Suppose that a proposal from before the new minimum were applied after it. Then the leader would go on committing by the old
minimum, with an ISR that is too small by the new one, while the controller counts the replicas that left that ISR as eligible leaders. With
another partition epoch such a proposal is refused, and the leader proposes anew when it knows the epoch, and the minimum with it.

A change of the minimum clears the eligible leaders, as in Kafka. They are brought back by a record after the one that clears them where
nothing can be committed without them: the ISR was too small by the old minimum, and is too small by the new one
(``docs/decisions/0035-another-minimum-another-epoch.md``).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ClusterImage, TopicImage
from esp.model.ids import NO_NODE
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
)


class _Minimum(NamedTuple):
    """The minimum of a topic before and after a decision, whatever the number of replicas."""

    topic: TopicImage
    old: int
    new: int

    def is_out_of_reach(self, state: PartitionState) -> bool:
        """True if a partition has fewer replicas in sync than it needs now."""
        return len(state.isr) < min(self.new, len(state.replicas))

    def rises(self, state: PartitionState) -> bool:
        """True if a partition needs more replicas than before."""
        return min(self.new, len(state.replicas)) > min(self.old, len(state.replicas))


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
    cleared = _cleared(records)
    for minimum in _changed_minimums(image, records):
        is_cleared = not cleared.isdisjoint((minimum.topic.name, ""))
        for state in minimum.topic.partitions:
            has_another_epoch = is_cleared and (state.elr or state.last_known_elr)
            if minimum.rises(state) and state.leader != NO_NODE and not has_another_epoch:
                yield PartitionChangeRecord(partition_id=state.partition, topic_id=minimum.topic.topic_id)


def plan_kept_candidates(image: ClusterImage, records: Sequence[MetadataRecord]) -> Iterator[PartitionChangeRecord]:
    """The records that, after ``records``, bring back the replicas that are known to be complete where they stay so.

    Where replicas are eligible, the ISR is smaller than the old minimum. If it is smaller than the new one as well, a leader that goes by
    either commits nothing with that ISR (HW-2). Without the records the partition would lose a complete copy to a change of settings, and
    might wait for an unclean election. Kafka forgets these replicas.

    Args:
        image: the state on which ``records`` were decided.
        records: all records of one decision.
    """
    cleared = _cleared(records)
    for minimum in _changed_minimums(image, records):
        if cleared.isdisjoint((minimum.topic.name, "")):
            continue
        for state in minimum.topic.partitions:
            if (state.elr or state.last_known_elr) and minimum.is_out_of_reach(state):
                yield PartitionChangeRecord(
                    partition_id=state.partition,
                    topic_id=minimum.topic.topic_id,
                    eligible_leader_replicas=state.elr,
                    last_known_elr=state.last_known_elr,
                )


def _cleared(records: Sequence[MetadataRecord]) -> frozenset[str]:
    """The topics whose eligible leaders ``records`` clear; "" stands for all."""
    return frozenset(record.topic_name for record in records if isinstance(record, ClearElrRecord))


def _changed_minimums(image: ClusterImage, records: Sequence[MetadataRecord]) -> Iterator[_Minimum]:
    """The minimums of the topics for which ``records`` set one, of the topic or of all, be it the same."""
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
    named = (topic for name in of_topics if (topic := image.topics_by_name.get(name)) is not None)
    for topic in image.topics_by_id.values() if of_all else named:
        changed_topic = topic
        if topic.name in of_topics:
            changed_topic = replace(topic, configs=_with(topic.configs, of_topics[topic.name]))
        yield _Minimum(topic, image.min_insync_replicas(topic), after.min_insync_replicas(changed_topic))


def _with(configs: Mapping[str, str], value: str | None) -> Mapping[str, str]:
    rest = {name: other for name, other in configs.items() if name != MIN_INSYNC_REPLICAS}
    return rest if value is None else {**rest, MIN_INSYNC_REPLICAS: value}
