"""Replicas that a living process has begun anew, as they had rotted: no leader counts them by what they had before (REC-4).

What such a replica said that it holds stays true as far as its leader can tell, until a new leader epoch begins. A leader that goes on
would let the empty replica into the in-sync set.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.ids import LOST_DIRECTORY, NodeId, TopicId
from esp.simulation.checkers import probe
from esp.simulation.checkers.replica_view import ReplicaView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode

Key = tuple[TopicId, int]

_INVARIANT: Final = "INV-HW-EVIDENCE"


class _Renewal(NamedTuple):
    """The process in which a replica was let go of, and the broker epoch of it."""

    node: SimulatedNode
    life: int
    broker_epoch: int

    @property
    def is_of_this_process(self) -> bool:
        """True if the node has not been registered anew since."""
        return (
            self.node.is_alive and self.node.lives == self.life and probe.broker_epoch(self.node) == self.broker_epoch
        )


class RenewedReplicas:
    """Remembers the replicas of which a process that lives let go, by partition and node."""

    def __init__(self) -> None:
        self._renewals: dict[Key, dict[int, _Renewal]] = {}
        self._looked_at: dict[int, tuple[list[HostedPartition], list[HostedPartition]]] = {}
        """The replicas of each node when they were looked through last, and those among them of partitions with renewals."""

    def note(self, node: SimulatedNode, key: Key) -> None:
        """A node let go of a replica."""
        self._renewals.setdefault(key, {})[node.node_id] = _Renewal(node, node.lives, probe.broker_epoch(node))
        self._looked_at.clear()

    def of(self, node_id: int, replicas: list[HostedPartition]) -> list[HostedPartition]:
        """The replicas among those of a node that are to be checked while they lead; quick where nothing is new."""
        if not self._renewals:
            return []
        looked_at = self._looked_at.get(node_id)
        if looked_at is None or looked_at[0] != replicas:
            found = [hosted for hosted in replicas if (hosted.topic_id, hosted.name.partition) in self._renewals]
            looked_at = self._looked_at[node_id] = replicas, found
        return looked_at[1]

    def check(
        self,
        name: str,
        hosted: HostedPartition,
        views: dict[int, dict[Key, ReplicaView]],
        leader_epoch: Callable[[TopicId, int], int],
    ) -> None:
        """Hold what a leader counts on against what the replicas have.

        Args:
            name: the leader's node, for a message.
            hosted: a replica that leads.
            views: all replicas as they are, by node and partition.
            leader_epoch: the newest leader epoch of a partition; a leader of an earlier one counts for nothing.

        Raises:
            ViolationError: INV-HW-EVIDENCE: it may let a replica in that has not all that it counts on.
        """
        leader, key = hosted.leader, (hosted.topic_id, hosted.name.partition)
        if leader is None:
            return
        for number, renewal in self._renewals.get(key, {}).items():
            # What excludes most renewals is asked first: this is asked after each turn.
            follower = leader.follower(NodeId(number))
            if follower is None or follower.broker_epoch != renewal.broker_epoch:
                continue
            view = views.get(number, {}).get(key)
            if (
                view is None
                or follower.log_end_offset <= view.end_offset
                or not renewal.is_of_this_process
                or not leader.state.directories
                or leader.leader_epoch != leader_epoch(*key)
            ):
                continue
            places = dict(zip(leader.state.replicas, leader.state.directories, strict=True))
            if places[NodeId(number)] != LOST_DIRECTORY:
                raise ViolationError(
                    _INVARIANT,
                    name,
                    f"it counts on {follower.log_end_offset} of {view.who}, which lost its records and ends at {view.end_offset} (REC-4)",
                )
