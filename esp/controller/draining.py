"""Brokers that shall be emptied (decision 0027)."""

from esp.controller.image import ClusterImage
from esp.model.ids import NodeId
from esp.settings.rebalance import DRAINING


def is_draining(image: ClusterImage, node_id: NodeId) -> bool:
    """True if a broker shall be emptied."""
    return image.broker_configs.get(str(node_id), {}).get(DRAINING, "").strip().lower() == "true"
