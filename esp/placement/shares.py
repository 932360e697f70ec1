"""What each broker should hold by a draft: of bytes, and of replicas."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, floor

from esp.model.ids import NodeId
from esp.placement.draft import Draft
from esp.placement.fair_share import fair_shares


@dataclass(frozen=True, slots=True)
class Shares:
    """The fair share of each broker that may get replicas."""

    size_bytes: dict[NodeId, float]
    replicas: dict[NodeId, float]

    def load(self, draft: Draft, node: NodeId) -> float:
        """How full a broker is: 2 if it has its share of bytes and of replicas."""
        return draft.size_bytes[node] / max(self.size_bytes[node], 1.0) + draft.replicas_on[node] / max(
            self.replicas[node], 1.0
        )


@dataclass(frozen=True, slots=True)
class Band:
    """How much a broker may have and count as even."""

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
    """How many replicas of a partition are on such brokers now."""
    counted = frozenset(nodes)
    return lambda position: sum(node in counted for node in draft.replicas[position])
