"""The other brokers, as one part of this node calls them: each over a connection of its own, at the address that it has in the metadata."""

from collections.abc import Callable, Container

from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address


class BrokerPeers:
    """Makes a connection at the first need, and another one where a broker has moved.

    Args:
        env: the outside.
        address_of: returns the address of a broker for other brokers, if it is known.
        client_id: what the others are told in the header of requests.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self, env: Env, address_of: Callable[[NodeId], Address | None], *, client_id: str, terms: PeerTerms
    ) -> None:
        self._env = env
        self._address_of = address_of
        self._client_id = client_id
        self._terms = terms
        self._peers: dict[NodeId, Peer] = {}
        self._is_closed = False

    def find(self, node_id: NodeId) -> Peer:
        """Another broker.

        Raises:
            PeerUnavailableError: it has no address, or there are no more calls.
        """
        address = self._address_of(node_id)
        peer = self._peers.get(node_id)
        if peer is not None and peer.address == address:
            return peer
        if peer is not None:
            peer.close()
            del self._peers[node_id]
        if address is None:
            raise PeerUnavailableError(Address("", 0), f"node {node_id} has no address on the inter-broker listener")
        if self._is_closed:
            raise PeerUnavailableError(address, "closed")
        peer = self._peers[node_id] = Peer(self._env, address, client_id=self._client_id, terms=self._terms)
        return peer

    def retain(self, alive: Container[NodeId]) -> None:
        """These brokers are alive, and no others: calls of the others are not answered any more."""
        for node_id in [node_id for node_id in self._peers if node_id not in alive]:
            self._peers.pop(node_id).close()

    def close(self) -> None:
        """Call no broker any more."""
        self._is_closed = True
        self.retain(())
