"""Placement of a new topic's replicas: striped over racks and brokers, as Kafka's ``StripedReplicaPlacer``.

Every placement satisfies this: the replicas of a partition are on different brokers, in as many racks as there are; the first replica,
which leads, is on a broker that serves; leaders are spread evenly over the brokers that serve. Fenced brokers are used only where a rack
has no other left.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from esp.model.ids import NodeId
from esp.ports.random import Random

Item = TypeVar("Item")


class PlacementBroker(NamedTuple):
    """A broker that can hold replicas. Brokers without a rack count as one rack."""

    node_id: NodeId
    rack: str | None
    fenced: bool


class PlacementError(Exception):
    """The cluster has no room for the replicas; the text is Kafka's."""


def place_replicas(
    brokers: Iterable[PlacementBroker], *, partitions: int, replication_factor: int, random: Random
) -> list[tuple[NodeId, ...]]:
    """The replicas of each new partition, the leader first.

    Args:
        brokers: all registered brokers.
        partitions: how many partitions, at least one.
        replication_factor: replicas of each, at least one.
        random: where the stripes begin, so that the topics of a cluster do not all begin at the same broker.

    Raises:
        PlacementError: no broker serves, or there are fewer brokers than replicas.
    """
    ring = _alternate_racks(brokers, random)
    serving = [broker for broker in ring if not broker.fenced]
    if not serving:
        raise PlacementError("All brokers are currently fenced or have all their log directories cordoned.")
    if replication_factor > len(ring):
        raise PlacementError(
            f"The target replication factor of {replication_factor} cannot be reached because only {len(ring)} broker(s) are "
            "registered or some brokers have all their log directories cordoned."
        )
    return [_place(serving, ring, partition, replication_factor) for partition in range(partitions)]


def _place(
    serving: Sequence[PlacementBroker], ring: Sequence[PlacementBroker], partition: int, replication_factor: int
) -> tuple[NodeId, ...]:
    leader = serving[partition % len(serving)]
    # Each turn of the ring shifts the followers, so that a leader's followers are not the same ones in every partition.
    start = ring.index(leader) + 1 + partition // len(serving)
    left = [*ring[start % len(ring) :], *ring[: start % len(ring)]]
    left.remove(leader)
    placed = [leader]
    used_racks = Counter([leader.rack])
    while len(placed) < replication_factor:
        chosen = min(left, key=lambda broker: (used_racks[broker.rack], broker.fenced))  # the first such in the ring
        left.remove(chosen)
        placed.append(chosen)
        used_racks[chosen.rack] += 1
    return tuple(broker.node_id for broker in placed)


def _alternate_racks(brokers: Iterable[PlacementBroker], random: Random) -> list[PlacementBroker]:
    """Order brokers so that neighbours are in different racks where possible; begins at a random rack, each rack at a random broker."""
    racks: dict[str | None, list[PlacementBroker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        racks.setdefault(broker.rack, []).append(broker)
    columns = _rotate([_rotate(rack, random) for rack in racks.values()], random)
    longest = max(map(len, columns), default=0)
    return [column[row] for row in range(longest) for column in columns if row < len(column)]


def _rotate(items: Sequence[Item], random: Random) -> list[Item]:
    start = random.below(len(items)) if items else 0
    return [*items[start:], *items[:start]]
