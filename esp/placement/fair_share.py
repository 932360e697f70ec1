"""What each broker would hold if replicas were as even as racks allow.

Where racks suffice, a partition has one replica in each of as many racks as it has replicas. So a small rack may have to hold more per
broker than a large one, and a rack can hold no more than one copy of everything while there are other racks. Within these bounds all
brokers get the same (water-filling).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from esp.model.ids import NodeId

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
