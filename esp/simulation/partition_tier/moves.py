"""Somebody who gives a simulated partition other replicas: begins, changes and cancels reassignments, at brokers that may be dead."""

from typing import TYPE_CHECKING, Final

from esp.simulation.partition_tier.profile import SECOND_US

if TYPE_CHECKING:
    from esp.simulation.partition_tier.cluster import PartitionCluster

_MEAN_US: Final = 2 * SECOND_US
_CANCEL_SHARE: Final = 0.4
_AGAIN_SHARE: Final = 0.5
"""Of what is asked for while a reassignment goes on: that is let be."""


class PartitionMoves:
    """See the module.

    Args:
        cluster: that they happen in.
    """

    def __init__(self, cluster: "PartitionCluster") -> None:
        self.accepted = 0
        self._cluster = cluster

    def start(self) -> None:
        """Ask now and then, as long as there are faults."""
        cluster = self._cluster
        cluster.later(int(cluster.random.expovariate(1) * _MEAN_US), self._act)

    def _act(self) -> None:
        cluster, random = self._cluster, self._cluster.random
        if cluster.is_calm:
            return
        state = cluster.controller.image.partition
        if not (state.is_reassigning and random.random() < _AGAIN_SHARE):
            target = None
            if not (state.is_reassigning and random.random() < _CANCEL_SHARE):
                nodes = [node.node_id for node in cluster.nodes]
                target = tuple(random.sample(nodes, random.randint(cluster.min_isr, min(3, len(nodes)))))
            cluster.note(f"reassignment to {target}")
            self.accepted += cluster.reassign(target)
        self.start()
