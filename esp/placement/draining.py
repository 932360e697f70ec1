"""Brokers are emptied: each replica on them gets another place, and nothing else moves."""

from collections.abc import Collection

from esp.model.ids import NodeId
from esp.placement.constraints import Violation
from esp.placement.draft import Draft
from esp.placement.shares import fair
from esp.placement.targets import choose_target


def drain(draft: Draft, leaving: Collection[NodeId]) -> list[Violation]:
    """Put other brokers in the places of those that leave; large partitions first, which leaves small ones to even things out.

    Returns:
        the partitions for which there is no place.
    """
    shares = fair(draft, lambda position: len(draft.replicas[position]))
    concerned = [
        (-partition.size_bytes, position)
        for position, partition in enumerate(draft.partitions)
        if not draft_is_disjoint(partition.replicas, leaving)
    ]
    violations = []
    for _, position in sorted(concerned):
        for node in draft.partitions[position].replicas:
            if node not in leaving:
                continue
            target = choose_target(draft, shares, position, node)
            if isinstance(target, Violation):
                violations.append(target)
            else:
                draft.move(position, node, target)
    return violations


def draft_is_disjoint(replicas: tuple[NodeId, ...], leaving: Collection[NodeId]) -> bool:
    """Whether no replica is on a broker that leaves."""
    return not any(node in leaving for node in replicas)
