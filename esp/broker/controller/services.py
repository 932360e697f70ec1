"""The parts of the node that the request handlers of controller listeners work with."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from esp.broker.authorization.access import Access
from esp.broker.controller.driver import ControllerDriver
from esp.broker.quotas.switch import QuotaSwitch
from esp.broker.raft.driver import RaftDriver
from esp.broker.raft.loader import MetadataLoader
from esp.broker.request import ClientContext
from esp.controller.image import FeatureRange
from esp.model.ids import NodeId
from esp.ports.env import Env
from esp.protocol.headers import RequestHeader
from esp.settings.broker import BrokerSettings


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
    access: Access
    """The permissions of clients here."""
    answer_enclosed: Callable[[RequestHeader, memoryview, ClientContext], Awaitable[bytes]]
    """Answers a request that came within an Envelope; see :meth:`~esp.broker.connections.dispatcher.Dispatcher.answer_enclosed`."""
    quotas: QuotaSwitch
    """The quotas that the controller itself counts: of changes to partitions."""
    features: Mapping[str, FeatureRange]
    """The levels of features that this node can work at."""
