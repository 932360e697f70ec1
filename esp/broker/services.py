"""What request handlers work with."""

from dataclasses import dataclass

from esp.broker.controller_driver import ControllerDriver
from esp.broker.metadata_cache import MetadataCache
from esp.broker.producer_ids import ProducerIds
from esp.broker.replica_host import ReplicaHost
from esp.model.ids import NodeId
from esp.model.settings import BrokerSettings
from esp.ports.env import Env


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a node, as handlers see them."""

    env: Env
    node_id: NodeId
    settings: BrokerSettings
    metadata: MetadataCache
    replicas: ReplicaHost
    controller: ControllerDriver
    producer_ids: ProducerIds
