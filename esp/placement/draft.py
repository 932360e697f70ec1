"""A placement while a planner changes it: the replicas of each partition, the load of each broker, and the moves that are allowed.

A seeded order of brokers, for choices between equals. No source of random numbers: the same seed must give the same plan everywhere.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.placement.constraints import required_racks
from esp.placement.limits import Limits, disk_limits
from esp.placement.step import Move

_MASK: Final = (1 << 64) - 1


def ranks(brokers: Iterable[NodeId], seed: int) -> dict[NodeId, int]:
    """A rank of each broker; which are low depends on the seed."""
    return {broker: _mix(_mix(seed) ^ broker) for broker in brokers}


def _mix(value: int) -> int:
    """A 64-bit number that looks like chance: one step of SplitMix64 (Steele, Lea, Flood 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Draft:
    """The placement that changes. Partitions go by their position in ``partitions``.

    ``size_bytes``, ``replicas_on`` and ``topic_replicas`` count the partitions that are looked at, ``disk_used`` everything. A move frees
    the disk at once here: whether there is room while both copies are there is the concern of :mod:`esp.placement.steps`.
    """

    def __init__(
        self,
        view: ClusterView,
        targets: Iterable[BrokerView],
        limits: Limits,
        seed: int,
        is_counted: Callable[[PartitionView], bool],
    ) -> None:
        """Begin with the cluster as it is.

        Args:
            view: the cluster.
            targets: brokers that may get replicas.
            limits: for the limit of disks.
            seed: for ties.
            is_counted: which partitions are looked at.
        """
        self.partitions = view.partitions
        self.replicas = [partition.replicas for partition in view.partitions]
        self.counted = [position for position, partition in enumerate(view.partitions) if is_counted(partition)]
        self.rack = {broker.broker_id: broker.rack for broker in view.brokers}
        self.targets = [broker.broker_id for broker in targets]
        self.racks: dict[str | None, list[NodeId]] = {}
        for node in self.targets:
            self.racks.setdefault(self.rack[node], []).append(node)
        self.rank = ranks(self.rack, seed)
        self.disk_used = {broker.broker_id: broker.disk_used_bytes for broker in view.brokers}
        self.disk_limit = disk_limits(view.brokers, limits)
        self.size_bytes: Counter[NodeId] = Counter()
        self.replicas_on: Counter[NodeId] = Counter()
        self.topic_replicas: Counter[tuple[NodeId, str]] = Counter()
        for position in self.counted:
            partition = view.partitions[position]
            for node in partition.replicas:
                self.size_bytes[node] += partition.size_bytes
                self.replicas_on[node] += 1
                self.topic_replicas[node, partition.topic] += 1
        alive = {broker.broker_id for broker in view.brokers if broker.is_alive}
        self._alive = alive
        self.is_movable = [not partition.is_reassigning and partition.leader in alive for partition in view.partitions]
        """True, by position, for partitions that can be moved: not moving already, and with a leader that is alive."""

    def has_dead_replica(self, position: int) -> bool:
        """True if a replica is on a broker that is not alive: then only moves that remove it would end."""
        return not self._alive.issuperset(self.replicas[position])

    def is_alive(self, node: NodeId) -> bool:
        """True if the broker is alive."""
        return node in self._alive

    def required_racks(self, position: int, replicas: int) -> int:
        """The number of racks that a partition must be in when it has so many replicas."""
        before = self.partitions[position].replicas
        return required_racks(tuple(self.rack[node] for node in before), replicas, len(self.racks))

    def keeps_racks(self, position: int, leaving: NodeId, target: NodeId) -> bool:
        """True if a replica may go from one broker to another: racks are as many as can be then, or no fewer than now."""
        rack = self.rack
        left, entered = rack[leaving], rack[target]
        if left == entered:
            return True
        replicas = self.replicas[position]
        others = {rack[node] for node in replicas if node != leaving}
        if entered not in others:
            return True
        return left in others or len(others) >= min(len(replicas), len(self.racks))

    def has_room(self, position: int, target: NodeId) -> bool:
        """True if the disk of a target has room for a replica, once the replicas that are to leave it have left."""
        limit = self.disk_limit.get(target)
        return limit is None or self.disk_used[target] + self.partitions[position].size_bytes <= limit

    def move(self, position: int, leaving: NodeId, target: NodeId) -> None:
        """Put a target in the place of a replica."""
        replicas = self.replicas[position]
        self.set_replicas(position, tuple(target if node == leaving else node for node in replicas))

    def set_replicas(self, position: int, replicas: tuple[NodeId, ...]) -> None:
        """Give a partition other replicas."""
        before = self.replicas[position]
        self.replicas[position] = replicas
        for node in before:
            if node not in replicas:
                self._count(position, node, -1)
        for node in replicas:
            if node not in before:
                self._count(position, node, 1)

    def moves(self) -> list[Move]:
        """The changes since the beginning, the largest first, so that small moves fill the gaps."""
        moves = [
            Move(
                topic=partition.topic,
                partition=partition.partition,
                before=partition.replicas,
                after=replicas,
                source=partition.replicas[0] if partition.leader is None else partition.leader,
                replica_bytes=partition.size_bytes,
            )
            for partition, replicas in zip(self.partitions, self.replicas, strict=True)
            if partition.replicas != replicas
        ]
        return sorted(moves, key=lambda move: (-move.replica_bytes, move.topic, move.partition))

    def _count(self, position: int, node: NodeId, sign: int) -> None:
        partition = self.partitions[position]
        self.disk_used[node] = self.disk_used.get(node, 0) + sign * partition.size_bytes
        self.size_bytes[node] += sign * partition.size_bytes
        self.replicas_on[node] += sign
        self.topic_replicas[node, partition.topic] += sign
