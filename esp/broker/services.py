"""The parts of the node that request handlers of broker listeners work with; for controllers, :mod:`esp.broker.controller.services`."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esp.broker.authorization.access import Access
from esp.broker.cluster_view.broker_liveness import BrokerLiveness
from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.controller_client.channel import ControllerChannel
from esp.broker.controller_client.producer_ids import ProducerIds
from esp.broker.groups.coordinators import GroupCoordinators
from esp.broker.quotas.switch import QuotaSwitch
from esp.broker.raft.driver import RaftDriver
from esp.broker.replication.host import ReplicaHost
from esp.broker.replication.retention_holds import RetentionHolds
from esp.broker.share_states.coordinators import ShareCoordinators
from esp.broker.share_states.persister import ClusterPersister
from esp.broker.transactions.coordinators import TransactionCoordinators
from esp.broker.transactions.verifier import TransactionVerifier
from esp.controller.image import ClusterImage, FeatureRange
from esp.model.ids import NodeId
from esp.ports.cpu import Cpu
from esp.ports.env import Env
from esp.settings.node import BrokerSettings

if TYPE_CHECKING:
    from esp.broker.share.leaders import ShareLeaders


@dataclass(frozen=True, slots=True)
class Services:
    """The parts of a node as the handlers of broker listeners (:mod:`esp.broker.apis`) see them."""

    env: Env
    searches: asyncio.Semaphore
    """Held by each search in a log: a search that waits for it holds nothing of the log meanwhile."""
    searching: Cpu
    """The threads in which batches are opened for searches: a share of them all, so that clients' searches cannot take every thread."""
    node_id: NodeId
    settings: BrokerSettings
    metadata: MetadataCache
    in_force: Callable[[], ClusterImage]
    """Returns the newest metadata here: rules, users, tokens and quotas count from it on, while ``metadata`` waits for the replicas."""
    replicas: ReplicaHost
    raft: RaftDriver
    """This node's place in the metadata quorum."""
    controller: ControllerChannel
    """The active controller, wherever it is."""
    producer_ids: ProducerIds
    liveness: BrokerLiveness
    is_current: Callable[[], bool]
    """True if this node knows the leaders of partitions as of a moment ago (BRK-9)."""
    peers: BrokerPeers
    """The other brokers, for questions that handlers have."""
    groups: GroupCoordinators
    holds: RetentionHolds
    """The holds of the logs here, and what became of them."""
    verifier: TransactionVerifier
    """Asks coordinators about transactions that reach a partition here."""
    transactions: TransactionCoordinators
    share_states: ShareCoordinators
    persister: ClusterPersister
    """The states of share partitions, wherever in the cluster their coordinators are."""
    share_leaders: "Callable[[], ShareLeaders]"
    """Returns the share partitions of the partitions that this node leads; loaded by the first call."""
    access: Access
    """The permissions of clients here."""
    quotas: QuotaSwitch
    """The quotas of clients here."""
    features: Mapping[str, FeatureRange]
    """The levels of features that this node can work at."""
