"""Sees what a broker is for a partition, in truth: clients learn that from few answers."""

from collections.abc import Iterable

from esp.model.ids import TopicId
from esp.ports.network import Address
from esp.simulation.checkers import probe
from esp.simulation.checkers.told_offsets import Role
from esp.simulation.nodes_tier.node import SimulatedNode


class Witness:
    """Looks up a broker's role.

    Args:
        nodes: all nodes.
    """

    def __init__(self, nodes: Iterable[SimulatedNode]) -> None:
        self._by_host = {node.host: node for node in nodes}

    def look(self, address: Address, topic_id: TopicId, partition: int) -> tuple[int, Role | None]:
        """The node at an address, and its role; None if it is dead, or neither leads nor follows the partition."""
        node = self._by_host[address.host]
        for hosted in probe.hosted_partitions(node) if node.is_alive else ():
            if hosted.topic_id == topic_id and hosted.name.partition == partition:
                core = hosted.leader or hosted.follower
                role = Role(node.lives, hosted.leader is not None, core.leader_epoch) if core is not None else None
                return node.node_id, role
        return node.node_id, None
