"""The parts of a node of any role once its metadata log is read: its directories, its place in the quorum, and the state of that log."""

from collections.abc import Mapping
from dataclasses import dataclass

from esp.broker.authorization.access import Access
from esp.broker.node_directories import NodeDirectories
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import FeatureRange


@dataclass(frozen=True, slots=True)
class RunningNode:
    """Made by :meth:`esp.broker.app.BrokerNode.start`, before the node takes part in the quorum."""

    directories: NodeDirectories
    raft: RaftDriver
    metadata: MetadataLoader
    access: Access
    """The permissions of clients here."""
    features: Mapping[str, FeatureRange]
    """The levels of features that the node can work at."""
