"""How much of a broker's disk a plan may fill."""

from collections.abc import Iterable

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView
from esp.placement.limits import Limits


def disk_limits(brokers: Iterable[BrokerView], limits: Limits) -> dict[NodeId, int]:
    """The limit of each broker whose capacity is known, in bytes."""
    return {
        broker.broker_id: int(broker.disk_capacity_bytes * limits.disk_used_max)
        for broker in brokers
        if broker.disk_capacity_bytes is not None
    }
