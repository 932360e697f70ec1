"""Replicas that a living process has begun anew, as they had rotted: no leader counts them by what they had before (REC-4).

What such a replica said that it holds stays true as far as its leader can tell, until a new leader epoch begins. A leader that goes on
would let the empty replica into the in-sync set.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.ids import LOST_DIRECTORY, NodeId, TopicId, TopicPartition
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
        self._names: set[TopicPartition] = set()

    def __bool__(self) -> bool:
        return bool(self._renewals)

    def __contains__(self, name: TopicPartition) -> bool:
        """True if a replica of a partition of that name was let go of: quicker to ask than :meth:`check`."""
        return name in self._names

    def note(self, node: SimulatedNode, name: TopicPartition, key: Key) -> None:
        """A node let go of a replica."""
        self._names.add(name)
        self._renewals.setdefault(key, {})[node.node_id] = _Renewal(node, node.lives, probe.broker_epoch(node))

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
        renewals = self._renewals.get(key)
        if (
            renewals is None
            or leader is None
            or not leader.state.directories
            or leader.leader_epoch != leader_epoch(*key)
        ):
            return
        places = dict(zip(leader.state.replicas, leader.state.directories, strict=True))
        for number, renewal in renewals.items():
            view, follower = views.get(number, {}).get(key), leader.follower(NodeId(number))
            if (
                view is None
                or follower is None
                or not renewal.is_of_this_process
                or follower.broker_epoch != renewal.broker_epoch
                or places[NodeId(number)] == LOST_DIRECTORY
            ):
                continue
            if follower.log_end_offset > view.end_offset:
                raise ViolationError(
                    _INVARIANT,
                    name,
                    f"it counts on {follower.log_end_offset} of {view.who}, which lost its records and ends at {view.end_offset} (REC-4)",
                )
