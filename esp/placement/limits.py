"""The limits of a plan, the part of a broker's disk that it may fill among them, beside the constraints of the cluster itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView

MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a plan, and of how it is carried out.

    Attributes:
        broker_bytes_per_second: the bytes that each broker may send, and may receive, for all moves together. Estimates rest on it.
        disk_used_max: the part of its disk that a broker may fill by received replicas, 0 to 1. The default leaves a tenth for what is
            produced meanwhile.
        moves_per_broker_max: copies of one step that a broker takes part in, as source or as target. Five is what Cruise Control has
            found to be enough to fill a budget.
        tolerance: how far from the fair share a broker may be and still count as even, as a part of that share. Less is moved the larger
            it is.
    """

    broker_bytes_per_second: int = 50 * MIB
    disk_used_max: float = 0.9
    moves_per_broker_max: int = 5
    tolerance: float = 0.05

    def __post_init__(self) -> None:
        if self.broker_bytes_per_second <= 0 or self.moves_per_broker_max <= 0:
            raise ValueError("a budget and a number of moves are positive")
        if not 0 < self.disk_used_max <= 1 or self.tolerance < 0:
            raise ValueError("a part of a disk is between 0 and 1, a tolerance not negative")


def disk_limits(brokers: Iterable[BrokerView], limits: Limits) -> dict[NodeId, int]:
    """The limit of each broker whose capacity is known, in bytes."""
    return {
        broker.broker_id: int(broker.disk_capacity_bytes * limits.disk_used_max)
        for broker in brokers
        if broker.disk_capacity_bytes is not None
    }
