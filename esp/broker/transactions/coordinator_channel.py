"""The way from a partition's leader to the coordinators of transactions: found in the metadata, called over a connection of its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.groups.partitioning import partition_for
from esp.model.ids import TRANSACTIONS_TOPIC, NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ApiKey

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

TIMEOUT_MS: Final = 30_000
"""Kafka's ``request.timeout.ms`` of a broker."""


class CoordinatorChannel:
    """Asks coordinators, this node's own among them.

    Args:
        env: the outside.
        node_id: of this node.
        metadata: as clients are told.
        address_of: returns the address of a node for other brokers, if it is known.
        local: answers what concerns this node itself.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        metadata: MetadataCache,
        address_of: Callable[[NodeId], Address | None],
        local: Dispatcher,
        *,
        terms: PeerTerms,
    ) -> None:
        self._env = env
        self._terms = terms
        self._node_id = node_id
        self._metadata = metadata
        self._address_of = address_of
        self._local = local
        self._client_id = f"broker-{node_id}-transaction-verifier"
        self._peers: dict[NodeId, Peer] = {}

    def find(self, transactional_id: str) -> NodeId | None:
        """The node that coordinates a transactional id, if the metadata knows one that serves."""
        topic = self._metadata.image.topics_by_name.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        leader = topic.partitions[partition_for(transactional_id, len(topic.partitions))].leader
        return leader if leader in self._metadata.alive else None

    async def call(self, node_id: NodeId, request: "AddPartitionsToTxnRequest") -> "AddPartitionsToTxnResponse":
        """Send a request to a coordinator.

        Raises:
            PeerUnavailableError: there was no answer.
        """
        answer: Any
        if node_id == self._node_id:
            answer = await self._local.call(ApiKey.ADD_PARTITIONS_TO_TXN, request, client_id=self._client_id)
        else:
            answer = await self._peer(node_id).call(ApiKey.ADD_PARTITIONS_TO_TXN, request, timeout_ms=TIMEOUT_MS)
        response: AddPartitionsToTxnResponse = answer
        return response

    def close(self) -> None:
        """Ask nothing any more."""
        for peer in self._peers.values():
            peer.close()

    def _peer(self, node_id: NodeId) -> Peer:
        address = self._address_of(node_id)
        peer = self._peers.get(node_id)
        if peer is not None and peer.address == address:
            return peer
        if peer is not None:
            peer.close()
            del self._peers[node_id]
        if address is None:
            raise PeerUnavailableError(Address("", 0), f"node {node_id} has no address on the inter-broker listener")
        peer = self._peers[node_id] = Peer(self._env, address, client_id=self._client_id, terms=self._terms)
        return peer
