"""Measures of a cluster's evenness: the load of each broker, and the distance of the fullest from the mean."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView, PartitionView
from esp.placement.step import BrokerLoad, Imbalance, Move


class LoadCount:
    """The loads of brokers, kept up to date while moves are done."""

    def __init__(
        self, brokers: Iterable[BrokerView], targets: Iterable[BrokerView], loads: Iterable[BrokerLoad] = ()
    ) -> None:
        """Begin.

        Args:
            brokers: all brokers.
            targets: the brokers that may get replicas, among which the load shall be even.
            loads: the loads at the beginning; none unless given.
        """
        self._brokers = tuple(broker.broker_id for broker in brokers)
        self._targets = tuple(broker.broker_id for broker in targets)
        self._size_bytes: Counter[NodeId] = Counter()
        self._replicas: Counter[NodeId] = Counter()
        self._leaders: Counter[NodeId] = Counter()
        for load in loads:
            self._size_bytes[load.broker_id] = load.size_bytes
            self._replicas[load.broker_id] = load.replicas
            self._leaders[load.broker_id] = load.leaders

    def add(self, partitions: Iterable[PartitionView]) -> None:
        """Count the load of partitions on brokers."""
        for partition in partitions:
            self._count(partition.replicas, partition.size_bytes, 1)

    def apply(self, move: Move) -> None:
        """Count a move as done."""
        self._count(move.before, move.replica_bytes, -1)
        self._count(move.after, move.replica_bytes, 1)

    def loads(self) -> tuple[BrokerLoad, ...]:
        """The present load of each broker."""
        return tuple(
            BrokerLoad(node, self._size_bytes[node], self._replicas[node], self._leaders[node])
            for node in self._brokers
        )

    def imbalance(self) -> Imbalance:
        """The present imbalance."""
        return Imbalance(
            _most_to_mean(self._size_bytes, self._targets),
            _most_to_mean(self._replicas, self._targets),
            _most_to_mean(self._leaders, self._targets),
        )

    def _count(self, replicas: tuple[NodeId, ...], size_bytes: int, sign: int) -> None:
        for node in replicas:
            self._size_bytes[node] += sign * size_bytes
            self._replicas[node] += sign
        self._leaders[replicas[0]] += sign


def _most_to_mean(amounts: Mapping[NodeId, int], brokers: Collection[NodeId]) -> float:
    held = [amounts[node] for node in brokers]
    total = sum(held)
    return max(held) * len(held) / total if total > 0 else 1.0
