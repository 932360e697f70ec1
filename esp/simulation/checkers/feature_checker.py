"""Holds the levels of features at which a cluster works against what its nodes support (KIP-584)."""

from esp.controller.features import find_unsupported
from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.node import SimulatedNode

REFUSED = "the release that the other nodes use, or a newer one"
"""In the last words of a node that cannot work at the level of the cluster."""


class FeatureChecker:
    """INV-FEATURES: looks at each node's image, and at the levels with which its broker is registered."""

    def __init__(self) -> None:
        self._images: dict[int, ClusterImage] = {}

    def look(self, node: SimulatedNode) -> None:
        """A controller that lives knows of no level that it does not support, nor does a broker that serves. Raises ViolationError."""
        image = probe.image(node)
        if self._images.get(node.node_id) is image:
            return
        self._images[node.node_id] = image
        broker = image.brokers.get(node.settings.node_id)
        is_registered = broker is not None and broker.epoch == probe.broker_epoch(node)
        if node.settings.is_controller or is_registered:
            for problem in find_unsupported(image.features, node.running_features):
                raise ViolationError("INV-FEATURES", node.name, problem)
        if broker is not None and is_registered and dict(broker.features) != dict(node.running_features):
            raise ViolationError("INV-FEATURES", node.name, f"is registered as {broker.features}")


def check_levels(old: ClusterImage, new: ClusterImage) -> None:
    """No level falls, and none is above what a registered broker supports. Raises ViolationError."""
    if old is EMPTY_IMAGE or (old.features == new.features and old.brokers is new.brokers):
        return
    for name, level in old.features.items():
        if new.features.get(name, 0) < level:
            raise ViolationError("INV-FEATURES", "the cluster", f"{name} falls from {level}: {new.features}")
    for broker in new.brokers.values():
        for problem in find_unsupported(new.features, broker.features):
            raise ViolationError("INV-FEATURES", f"broker {broker.node_id}", problem)


def is_too_old(node: SimulatedNode, image: ClusterImage) -> bool:
    """True if a node that ended itself did so as it must, because it cannot work at the level of the cluster."""
    return any(find_unsupported(image.features, node.running_features)) and REFUSED in node.end_reason
