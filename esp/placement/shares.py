"""The fair share of each broker in a draft: of bytes, and of replicas. It is the broker's load if replicas were as even as racks allow.

Where racks suffice, a partition has one replica in each of as many racks as it has replicas. So a small rack may have to hold more per
broker than a large one, and a rack can hold no more than one copy of everything while there are other racks. Within these bounds all
brokers get the same (water-filling).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from esp.model.ids import NodeId
from esp.placement.draft import Draft

_ROUNDS: Final = 100
"""Halvings of the interval that the level is in; more than a double has bits."""


def fair_shares(racks: Mapping[str | None, Sequence[NodeId]], weights: Mapping[int, int]) -> dict[NodeId, float]:
    """The share of each broker.

    Args:
        racks: the brokers of each rack; each rack has one.
        weights: for each replication factor the weight (bytes, or the number) of the partitions that have it, one replica counted.
    """
    sizes = {rack: len(brokers) for rack, brokers in racks.items()}
    least: Counter[str | None] = Counter()
    most: Counter[str | None] = Counter()
    total = 0
    for factor, weight in weights.items():
        placed = min(factor, sum(sizes.values()))
        total += placed * weight
        caps = {rack: min(size, max(1, placed - len(sizes) + 1)) for rack, size in sizes.items()}
        room = sum(caps.values())
        for rack, cap in caps.items():
            most[rack] += cap * weight
            least[rack] += max(int(placed >= len(sizes)), placed - (room - cap)) * weight

    def filled(level: float) -> dict[str | None, float]:
        return {rack: min(max(level * size, least[rack]), most[rack]) for rack, size in sizes.items()}

    low, high = 0.0, float(total)
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        if sum(filled(middle).values()) < total:
            low = middle
        else:
            high = middle
    shares = filled(high)
    return {broker: shares[rack] / sizes[rack] for rack, brokers in racks.items() for broker in brokers}


@dataclass(frozen=True, slots=True)
class Shares:
    """The fair share of each broker that may get replicas."""

    size_bytes: dict[NodeId, float]
    replicas: dict[NodeId, float]

    def load(self, draft: Draft, node: NodeId) -> float:
        """The fullness of a broker: 2 if it has its share of bytes and of replicas."""
        return draft.size_bytes[node] / max(self.size_bytes[node], 1.0) + draft.replicas_on[node] / max(
            self.replicas[node], 1.0
        )


@dataclass(frozen=True, slots=True)
class Band:
    """The range of a broker's load that counts as even."""

    low: float
    share: float
    high: float


def fair(draft: Draft, replicas_of: Callable[[int], int]) -> Shares:
    """The shares, if each partition that is looked at had so many replicas on brokers that may get some."""
    size_bytes: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for position in draft.counted:
        factor = replicas_of(position)
        size_bytes[factor] += draft.partitions[position].size_bytes
        replicas[factor] += 1
    return Shares(fair_shares(draft.racks, size_bytes), fair_shares(draft.racks, replicas))


def byte_band(share: float, tolerance: float) -> Band:
    """The band around a share of bytes."""
    return Band(share * (1 - tolerance), share, share * (1 + tolerance))


def count_band(share: float, tolerance: float) -> Band:
    """The band around a share of things that cannot be divided: at least the whole numbers on both sides."""
    return Band(floor(share * (1 - tolerance)), share, ceil(share * (1 + tolerance)))


def count_on(draft: Draft, nodes: Iterable[NodeId]) -> Callable[[int], int]:
    """Return the function that counts a partition's replicas on these brokers now."""
    counted = frozenset(nodes)
    return lambda position: sum(node in counted for node in draft.replicas[position])
