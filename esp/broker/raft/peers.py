"""The connections to the other members of the quorum.

Each member has two: fetches, which the leader may hold back, go on one, all else on the other, since answers come in the order of the
requests. When the connection of the fetches breaks, the leader's address is probed at once: if the leader no longer listens there, its
process is gone, and no member needs to wait for a time-out to learn it (FAST-1).
"""

import importlib
import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

from esp.broker.connections.node_probe import is_gone
from esp.broker.connections.peer import Peer, PeerUnavailableError
from esp.broker.connections.unheard import TOLD_AGAIN_US, UNHEARD_REMEDY
from esp.broker.tasks import Tasks
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.raft.effects import Peer as Member
from esp.raft.messages import FetchRequest, FetchSnapshotRequest, Request, Response

if TYPE_CHECKING:
    from esp.broker.raft.wire.calls import Call

_logger = logging.getLogger(__name__)

_REMEDIES: Final = {
    ErrorCode.inconsistent_cluster_id: "it belongs to another cluster; correct controller.quorum.bootstrap.servers or "
    "controller.quorum.voters, or give this node the data directory that it had",
    ErrorCode.cluster_authorization_failed: UNHEARD_REMEDY,
}


class OnAnswer(Protocol):
    """The callbacks for the end of a request; exactly one of both is called, once."""

    def on_response(self, peer: NodeId, request: Request, response: Response) -> None:
        """It was answered."""

    def on_send_failed(self, peer: NodeId, request: Request, *, refused: bool) -> None:
        """The request was not answered, for whatever reason; ``refused``: no process listens at the address."""


class QuorumPeers:
    """Sends the core's requests.

    Args:
        env: the outside.
        tasks: the tasks in which calls wait.
        node_id: this node, as others see it in their logs.
        request_timeout_ms: how long an answer may take, beyond what the request allows the other to wait.
        answers: called when a request ends.
        on_gone: called with an address to which there was a connection and at which no process listens any more.
        listener: the name of the controllers' listener that this node calls.
        terms: the terms of connections to it.
    """

    def __init__(
        self,
        env: Env,
        tasks: Tasks,
        node_id: NodeId,
        request_timeout_ms: int,
        answers: OnAnswer,
        on_gone: Callable[[Address], None],
        *,
        listener: str,
        terms: PeerTerms,
    ) -> None:
        self._env = env
        self._listener = listener
        self._terms = terms
        self._tasks = tasks
        self._client_id = f"raft-client-{node_id}"
        self._request_timeout_ms = request_timeout_ms
        self._answers = answers
        self._on_gone = on_gone
        self._peers: dict[tuple[NodeId, bool], Peer] = {}
        self._probing: dict[Address, None] = {}
        self._refusals: dict[tuple[Address, ErrorCode], int] = {}
        """The times until which each is not told again."""
        self._is_closed = False

    def send(self, member: Member, request: Request) -> None:
        """Send a request; its result is reported later, never during the call."""
        self._tasks.start(self._call(member, request), name=f"{type(request).__name__} to {member.node_id}")

    def close(self) -> None:
        """End all connections; requests that wait for an answer fail."""
        self._is_closed = True
        for peer in self._peers.values():
            peer.close()

    async def _call(self, member: Member, request: Request) -> None:
        call = _calls()[type(request)]
        timeout_ms = self._request_timeout_ms
        if isinstance(request, FetchRequest):
            timeout_ms += request.max_wait_ms
        peer = self._peer(member, is_fetch=isinstance(request, FetchRequest | FetchSnapshotRequest))
        try:
            answer = await peer.call(call.api_key, call.encode(request), timeout_ms=timeout_ms)
        except PeerUnavailableError as error:
            self._answers.on_send_failed(member.node_id, request, refused=error.refused)
            return
        response = call.read(request, answer, self._listener)
        if isinstance(response, ErrorCode):
            self._tell_refusal(member, type(request).__name__, response)
            self._answers.on_send_failed(member.node_id, request, refused=False)
        else:
            self._answers.on_response(member.node_id, request, response)

    def _peer(self, member: Member, *, is_fetch: bool) -> Peer:
        key = (member.node_id, is_fetch)
        peer = self._peers.get(key)
        if peer is None or peer.address != member.address:
            if peer is not None:
                peer.close()
            peer = self._peers[key] = Peer(self._env, member.address, client_id=self._client_id, terms=self._terms)
            if is_fetch:
                peer.on_lost = lambda error: self._on_lost(error.address)
        return peer

    def _tell_refusal(self, member: Member, what: str, error: ErrorCode) -> None:
        """Say what only an operator can repair; the same again after :data:`TOLD_AGAIN_US`, as there are many attempts."""
        now_us = self._env.clock.monotonic_us()
        if now_us >= self._refusals.get((member.address, error), now_us):
            self._refusals[member.address, error] = now_us + TOLD_AGAIN_US
            remedy = _REMEDIES.get(error, "look at its log")
            _logger.error(
                "%s was refused by the controller at %s with %s: %s", what, member.address, error.name, remedy
            )

    def _on_lost(self, address: Address) -> None:
        if not self._is_closed and address not in self._probing:
            self._probing[address] = None
            self._tasks.start(self._probe(address), name=f"probe of {address}")

    async def _probe(self, address: Address) -> None:
        try:
            if await is_gone(self._env, (address,)) and not self._is_closed:
                self._on_gone(address)  # else the time-outs decide
        finally:
            del self._probing[address]


@cache
def _calls() -> "Mapping[type[Request], Call]":
    """The wire's half, which a quorum of one never loads."""
    calls: Mapping[type[Request], Call] = importlib.import_module("esp.broker.raft.wire.calls").CALLS
    return calls
