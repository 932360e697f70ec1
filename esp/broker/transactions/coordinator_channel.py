"""The way from a partition's leader to the coordinators of transactions: found in the metadata, called over a connection of its own."""

import asyncio
import importlib
from collections.abc import Callable, Sequence
from functools import cache as once
from typing import TYPE_CHECKING, Any, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.transactions.coordinators import TransactionCoordinators
from esp.broker.transactions.verifier import Producer
from esp.groups.partitioning import partition_for
from esp.model.ids import TRANSACTIONS_TOPIC, NodeId, TopicPartition
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

    from esp.transactions.responses import PartitionsResult

_JOINING: Final = "esp.broker.transactions.joining"
"""Loaded with the first question, so that the start of a node does not wait for it."""

TIMEOUT_MS: Final = 30_000
"""Kafka's ``request.timeout.ms`` of a broker."""


class CoordinatorChannel:
    """Asks coordinators, this node's own among them.

    Args:
        env: the outside.
        node_id: of this node.
        metadata: as clients are told.
        address_of: returns the address of a node for other brokers, if it is known.
        transactions: returns this node's own coordinators.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        metadata: MetadataCache,
        address_of: Callable[[NodeId], Address | None],
        transactions: Callable[[], TransactionCoordinators],
        *,
        terms: PeerTerms,
    ) -> None:
        self.node_id = node_id
        """This node, whose coordinators are asked by :meth:`ask_here`."""
        self._metadata = metadata
        self._transactions = transactions
        self._peers = BrokerPeers(env, address_of, client_id=f"broker-{node_id}-transaction-verifier", terms=terms)

    def find(self, transactional_id: str) -> NodeId | None:
        """The node that coordinates a transactional id, if the metadata knows one that serves."""
        topic = self._metadata.image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return leader if leader in self._metadata.alive else None

    async def call(self, node_id: NodeId, request: "AddPartitionsToTxnRequest") -> "AddPartitionsToTxnResponse":
        """Send a request to a coordinator at another node.

        Raises:
            PeerUnavailableError: there was no answer.
        """
        response: AddPartitionsToTxnResponse = await self._peers.find(node_id).call(
            ApiKey.ADD_PARTITIONS_TO_TXN, request, timeout_ms=TIMEOUT_MS
        )
        return response

    def ask_here(
        self, producer: Producer, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> "asyncio.Future[PartitionsResult]":
        """Ask a coordinator of this node, without a message and a connection; the answer may be there already."""
        joining = _load_joining()
        found: asyncio.Future[PartitionsResult] = joining.ask_for_leader(
            self._transactions(),
            self._metadata,
            producer.transactional_id,
            joining.Producer(producer.producer_id, producer.producer_epoch),
            partitions,
            adds=adds,
        )
        return found

    def close(self) -> None:
        """Ask nothing any more."""
        self._peers.close()


@once
def _load_joining() -> Any:
    return importlib.import_module(_JOINING)
