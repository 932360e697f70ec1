"""Where the checkers look into a node: the one module that knows how its objects hang together."""

from collections.abc import Iterable

from esp.broker.hosted_partition import HostedPartition
from esp.broker.metadata_loader import MetadataLoader
from esp.broker.raft_driver import RaftDriver
from esp.broker.replica_host import ReplicaHost
from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.simulation.node import SimulatedNode
from esp.storage.log import Log


def hosted_partitions(node: SimulatedNode) -> list[HostedPartition]:
    """All replicas that the node has open, in the order in which it got them."""
    role = node.broker.broker if node.broker is not None else None
    replicas: ReplicaHost | None = getattr(role, "replicas", None)
    if replicas is None:
        return []
    return [hosted for partitions in replicas.by_topic.values() for hosted in partitions.values()]


def image(node: SimulatedNode) -> ClusterImage:
    """The committed metadata as the node knows it."""
    metadata: MetadataLoader | None = getattr(node.broker, "metadata", None)
    return metadata.image if metadata is not None else EMPTY_IMAGE


def raft(node: SimulatedNode) -> RaftDriver | None:
    """The node's member of the metadata quorum, or None while it has not come that far."""
    return getattr(node.broker, "raft", None)


def is_between_steps(node: SimulatedNode) -> bool:
    """Whether the node's member of the quorum has done on its disk what its core has decided."""
    driver = raft(node)
    return driver is not None and not driver._is_stepping  # noqa: SLF001 - nobody else needs to know


def metadata_log(node: SimulatedNode) -> Log | None:
    """The log of the node's member of the quorum, or None while it has not come that far."""
    return getattr(raft(node), "_log", None)


def active_controller(nodes: Iterable[SimulatedNode]) -> SimulatedNode | None:
    """The living node that leads the metadata quorum in the highest epoch, if any does."""
    leading = [node for node in nodes if node.is_alive and leads_quorum(node)]
    return max(leading, key=quorum_epoch, default=None)


def leads_quorum(node: SimulatedNode) -> bool:
    """Whether the node takes itself for the leader of the metadata quorum."""
    driver = raft(node)
    return driver is not None and driver.is_leader


def quorum_epoch(node: SimulatedNode) -> int:
    """The highest epoch that the node knows."""
    driver = raft(node)
    return driver.epoch if driver is not None else 0
