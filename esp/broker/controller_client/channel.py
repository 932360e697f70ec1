"""Calls of a node to the active controller, wherever that is.

Where this node leads the quorum, a call goes straight to its own controller's handlers; else over the wire to the leader's controller
listener. A call is made again, after a short pause or as soon as another leader is known, while there is no leader, while the node that was
called is not the active controller (yet, or any more), and when the connection broke: so a request may be carried out more than once, as
with Kafka's forwarding. No request may be sent here that does harm when it is repeated.

One channel is one connection, on which answers come in order. Requests that must not wait have channels of their own: heartbeats (the end
of their connection is also a sign to the controller that the broker may be gone), and requests of leaders; clients' requests have another.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.broker.controller_client.original_client import OriginalClient
from esp.broker.request import ClientContext
from esp.broker.waiting import Waiters, time_limit
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.errors import DecodeError
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

RETRY_BACKOFF_US: Final = 50_000
"""Between two attempts while nothing new is known of the quorum's leader."""

ANSWER_TIMEOUT_MS: Final = 30_000
"""The time in which the controller must answer, before the connection to it is given up: Kafka's ``controller.socket.timeout.ms``."""

_ASK_ANOTHER: Final = frozenset((ErrorCode.not_controller, ErrorCode.not_leader_or_follower))
"""The codes of a node that does not lead: of the controller, and for requests about the quorum itself of the raft layer."""


class QuorumView(Protocol):
    """The leader of the metadata quorum, as far as this node knows; :class:`~esp.broker.raft.driver.RaftDriver` is one such view."""

    @property
    def leader(self) -> NodeId | None:
        """The leader of the present epoch."""

    @property
    def leader_address(self) -> Address | None:
        """Its controller listener."""

    def on_leadership(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever one of these, or whether this node is active, has changed."""


class LocalController(Protocol):
    """This node's own controller: the dispatcher of its controller listeners."""

    def call(
        self,
        api_key: ApiKey,
        message: Any,
        *,
        client_id: str | None,
        client: ClientContext | None = None,
        version: int | None = None,
    ) -> Awaitable[Any]:
        """Answer a request of the node's own, or of a client; instances of a version's classes, of the newest one's if it is None."""


class ControllerCalls(Protocol):
    """Calls to the active controller, for callers that need not know the way: :class:`ControllerChannel` is one."""

    async def call(self, api_key: ApiKey, message: Any, *, timeout_ms: int) -> Any:
        """Return the active controller's answer. See :meth:`ControllerChannel.call`.

        Raises:
            ApiError: REQUEST_TIMED_OUT; what was asked may have been done.
        """


class ControllerChannel:
    """Calls the active controller.

    Args:
        env: the outside.
        node_id: this node.
        quorum: knows the leader.
        local: the controller of this node, if it has that role.
        client_id: what the controller is told in the header of requests.
        terms: the terms of connections to controllers.
        answer_timeout_ms: how long an answer over the wire may take before the connection is given up, whatever the caller's own limit.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        quorum: QuorumView,
        local: LocalController | None,
        *,
        client_id: str,
        terms: PeerTerms,
        answer_timeout_ms: int = ANSWER_TIMEOUT_MS,
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._quorum = quorum
        self._local = local
        self._client_id = client_id
        self._terms = terms
        self._answer_timeout_ms = answer_timeout_ms
        self._peer: Peer | None = None
        self._retry = Waiters(env.clock)
        self._leadership_changes = 0
        self._closed = False
        quorum.on_leadership(self._on_leadership)

    async def call(
        self, api_key: ApiKey, message: Any, *, timeout_ms: int, client: OriginalClient | None = None
    ) -> Any:
        """Return the active controller's answer: instances of kio's model classes of the API's newest version.

        Errors in the answer are for the caller, except those that say that another node leads.

        Args:
            api_key: the API.
            message: the request.
            timeout_ms: how long to try.
            client: the client whose request it is, about which the controller decides; None: this node's own.

        Raises:
            ApiError: REQUEST_TIMED_OUT; whether the request was done is not known (PROMISE-7). CLUSTER_AUTHORIZATION_FAILED: the controller
                does not let this node ask for clients.
        """
        try:
            async with time_limit(self._env.clock, timeout_ms):
                while True:
                    known = self._leadership_changes
                    answer = await self._attempt(api_key, message, client)
                    if answer is not None:
                        return answer
                    if known == self._leadership_changes:
                        await self._retry.wait(RETRY_BACKOFF_US)
        except TimeoutError as error:
            raise ApiError(
                ErrorCode.request_timed_out, f"The active controller did not answer within {timeout_ms} ms."
            ) from error

    def close(self) -> None:
        """End the connection. Calls that wait, and later ones, get no answer before their time is up."""
        self._closed = True
        if self._peer is not None:
            self._peer.close()
            self._peer = None

    async def _attempt(self, api_key: ApiKey, message: Any, client: OriginalClient | None) -> Any:
        """The answer, or None if there is none from an active controller."""
        if self._closed:
            return None
        if self._quorum.leader == self._node_id and self._local is not None:
            if client is None:
                answer = await self._local.call(api_key, message, client_id=self._client_id)
            else:
                answer = await self._local.call(
                    api_key, message, client_id=client.client_id, client=client.context(), version=client.version
                )
        else:
            address = self._quorum.leader_address
            if address is None:
                return None
            try:
                answer = await self._ask(self._peer_at(address), api_key, message, client)
            except PeerUnavailableError as error:
                log.debug("%s to the controller: %s", api_key.name, error)
                return None
        return None if _is_from_another(answer) else answer

    async def _ask(self, peer: Peer, api_key: ApiKey, message: Any, client: OriginalClient | None) -> Any:
        if client is None:
            return await peer.call(api_key, message, timeout_ms=self._answer_timeout_ms)
        envelope = client.enclose(api_key, message)
        answer = await peer.call(ApiKey.ENVELOPE, envelope, timeout_ms=self._answer_timeout_ms)
        if answer.error_code in _ASK_ANOTHER:
            return answer
        try:
            return client.open_answer(peer.address, api_key, answer)
        except DecodeError as error:
            raise PeerUnavailableError(peer.address, f"its enclosed answer cannot be decoded: {error}") from error

    def _peer_at(self, address: Address) -> Peer:
        if self._peer is None or self._peer.address != address:
            self._leave_peer()
            self._peer = Peer(self._env, address, client_id=self._client_id, terms=self._terms)
        return self._peer

    def _on_leadership(self) -> None:
        """Try again at once what waits for a leader, and what waits for the answer of one that is none any more."""
        self._leadership_changes += 1
        if self._peer is not None and self._peer.address != self._quorum.leader_address:
            self._leave_peer()
        self._retry.wake()

    def _leave_peer(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None


def _is_from_another(answer: Any) -> bool:
    """True if the answer says that its sender is not the active controller, as a whole or for its first element."""
    code = getattr(answer, "error_code", None)
    if code is None:
        for name in ("topics", "responses", "results"):
            for element in getattr(answer, name, ()):
                return element.error_code is ErrorCode.not_controller
    return code in _ASK_ANOTHER
