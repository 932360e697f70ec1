"""Whether a broker holds the last copy of a partition that is known to be complete, so that records are lost with it (BRK-10)."""

from collections.abc import Iterator
from typing import Final

from esp.controller.image import CLUSTER_DEFAULT, ClusterImage
from esp.model.ids import NodeId, TopicPartition
from esp.model.partition import PartitionState
from esp.model.rebalance_settings import REMOVAL_FORCED

_SHOWN_MAX: Final = 10
"""Partitions that a refusal names; the rest it counts."""


def partitions_last_on(image: ClusterImage, node_id: NodeId) -> Iterator[TopicPartition]:
    """The partitions of which nobody but this broker has a complete copy, whether it is alive or not."""
    for topic, state in image.partitions():
        if complete_copies(state) == {node_id}:
            yield TopicPartition(topic.name, state.partition)


def complete_copies(state: PartitionState) -> set[NodeId]:
    """Who has every committed record, as far as that is known (ELR-2); where nobody has, the last-known leader, who knows most."""
    return {*state.isr, *state.elr} or set(state.last_known_elr)


def forced_removals(image: ClusterImage) -> tuple[str, ...]:
    """The ids of brokers that go, whatever goes with them: what ``broker.removal.forced`` of all brokers says."""
    text = image.broker_configs.get(CLUSTER_DEFAULT, {}).get(REMOVAL_FORCED, "")
    return tuple(part.strip() for part in text.split(",") if part.strip())


def listed(partitions: list[TopicPartition]) -> str:
    """Partitions in a message, not too many."""
    names = ", ".join(map(str, partitions[:_SHOWN_MAX]))
    return names if len(partitions) <= _SHOWN_MAX else f"{names} and {len(partitions) - _SHOWN_MAX} more"
