"""What the request handlers of controller listeners work with."""

from dataclasses import dataclass

from esp.broker.controller.driver import ControllerDriver
from esp.broker.metadata.loader import MetadataLoader
from esp.broker.quorum.driver import RaftDriver
from esp.model.broker_settings import BrokerSettings
from esp.model.ids import NodeId
from esp.ports.env import Env


@dataclass(frozen=True, slots=True)
class ControllerServices:
    """The parts of a node as the handlers of controller listeners (:mod:`esp.broker.apis`) see them."""

    env: Env
    node_id: NodeId
    cluster_id: str
    settings: BrokerSettings
    raft: RaftDriver
    metadata: MetadataLoader
    controller: ControllerDriver
