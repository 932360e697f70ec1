"""Marks of the copies that self-repair makes, which go no faster than ``rebalance.bytes.per.second.max`` (REPAIR-4).

A mark stands in the metadata log, beside the reassignment itself: as a setting of the topic that names the replicas which self-repair
adds (:data:`~esp.settings.throttled_replicas.REPAIRED_REPLICAS`). It comes in the batch that begins the reassignment, goes in the one that
changes or cancels it, and is taken away soon after it has ended; brokers go by it only while the replica is being added. So a controller
may die at any point: nothing is copied without its mark, and no mark that is left slows anything.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.controller.decision import Decision
from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import TopicId
from esp.model.partition import PartitionState
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord
from esp.settings.throttled_replicas import REPAIRED_REPLICAS, read_repaired_replicas

_NOBODY: Final[frozenset[int]] = frozenset()


def plan_marks(
    image: ClusterImage, changed: Mapping[tuple[TopicId, int], PartitionState], *, for_repair: bool
) -> list[ConfigRecord]:
    """The records that go with reassignments which are begun, changed or cancelled.

    Args:
        image: the state before.
        changed: the partitions as they are afterwards.
        for_repair: whether self-repair does it; then the added replicas are marked, otherwise the marks are removed.
    """
    by_topic: dict[TopicId, dict[int, frozenset[int]]] = {}
    for (topic_id, number), state in changed.items():
        by_topic.setdefault(topic_id, {})[number] = frozenset(state.adding_replicas) if for_repair else _NOBODY
    return [record for topic_id, marked in by_topic.items() for record in _remark(image.topics_by_id[topic_id], marked)]


def decide_mark_removal(image: ClusterImage) -> Decision[None]:
    """Take away the marks of replicas that are not being added any more. To be asked every few seconds, whatever the mode."""
    records: list[ConfigRecord] = []
    for topic in image.topics_by_id.values():
        if REPAIRED_REPLICAS in topic.configs:
            records += _remark(topic, {})
    return Decision(tuple(records), None)


def _remark(topic: TopicImage, others: Mapping[int, frozenset[int]]) -> Iterable[ConfigRecord]:
    """The topic's marks that still hold, with ``others`` in place of those of their partitions; no record if nothing changes."""
    present = topic.configs.get(REPAIRED_REPLICAS)
    marked = {
        (number, node)
        for number, node in read_repaired_replicas(present or "").replicas
        if number not in others and number < len(topic.partitions) and node in topic.partitions[number].adding_replicas
    }
    marked |= {(number, node) for number, nodes in others.items() for node in nodes}
    text = ",".join(f"{number}:{node}" for number, node in sorted(marked)) or None
    if text != present:
        yield ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=REPAIRED_REPLICAS, value=text)
