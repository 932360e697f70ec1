"""Coordinators that can be held against their logs: of the newest epoch, at rest, and of the log that is known to be committed."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from esp.controller.image import ClusterImage
from esp.simulation.checkers.replica_checker import Key, ReplicaChecker
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World


class _AtRest(Protocol):
    @property
    def end_offset(self) -> int:
        """The end offset of the coordinator's log."""


AtRest = TypeVar("AtRest", bound=_AtRest)


def find_at_rest(
    world: World,
    image: ClusterImage,
    replicas: ReplicaChecker,
    key: Key,
    look: Callable[[SimulatedNode, int, int], AtRest | None],
) -> tuple[str, AtRest] | None:
    """The coordinator that leads a partition in the newest epoch, by its node's name; None if something is on its way into the log.

    Args:
        world: the cluster.
        image: the newest committed metadata.
        replicas: knows what is committed.
        key: the partition.
        look: looks into a node for the coordinator of a partition in an epoch; None if it is not there, or not at rest.
    """
    committed = replicas.of_partition(key)
    state = image.topics_by_id[key[0]].partitions[key[1]]
    node = world.nodes.get(state.leader)
    if committed is None or node is None or not node.is_alive:
        return None
    found = look(node, key[1], state.leader_epoch)
    return (node.name, found) if found is not None and found.end_offset == committed.end_offset else None
