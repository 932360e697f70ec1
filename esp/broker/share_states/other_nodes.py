"""The share coordinators of other nodes, asked in the messages of :mod:`esp.broker.share_states.messages`.

Questions of one kind about one group go to a node in one message at a time: those that come meanwhile make up the next one. Nothing is
asked again here: what became of a question without an answer is not known.
"""

import asyncio
import importlib
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.tasks import Tasks
from esp.broker.turns.request_parts import STATES
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.ports.env import Env
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Delete, Initialize, Read, ReadSummary, Refused, Request, Result, Write

_MESSAGES: Final = "esp.broker.share_states.messages"
"""Loaded with the first question, so that the start of a node does not wait for it."""

TIMEOUT_MS: Final = 10_000
"""Twice the time after which a coordinator says by default that it could not write (``share.coordinator.write.timeout.ms``)."""

_APIS: Final[Mapping[type[Request], ApiKey]] = MappingProxyType(
    {
        Initialize: ApiKey.INITIALIZE_SHARE_GROUP_STATE,
        Read: ApiKey.READ_SHARE_GROUP_STATE,
        Write: ApiKey.WRITE_SHARE_GROUP_STATE,
        Delete: ApiKey.DELETE_SHARE_GROUP_STATE,
        ReadSummary: ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    }
)


class _Line(NamedTuple):
    """Questions that may go in one message."""

    node_id: NodeId
    kind: type[Request]
    group_id: str


class _Question(NamedTuple):
    request: Request
    answer: asyncio.Future[Result]


_Batch = Mapping[ShareStateKey, _Question]


class OtherNodes:
    """Implements :class:`esp.broker.share_states.persister.Elsewhere`.

    Args:
        env: the outside.
        node_id: this node.
        tasks: the tasks in which questions are asked.
        address_of: returns the address of a node for other brokers, if it is known.
        terms: the terms of connections to brokers.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        tasks: Tasks,
        address_of: Callable[[NodeId], Address | None],
        *,
        terms: PeerTerms,
    ) -> None:
        self._tasks = tasks
        self._peers = BrokerPeers(env, address_of, client_id=f"broker-{node_id}-share-states", terms=terms)
        self._waiting: dict[_Line, deque[_Question]] = {}
        """Questions that are not sent yet. A line without an entry has no message under way."""

    async def ask(self, node_id: NodeId, request: Request) -> Result:
        """See :meth:`esp.broker.share_states.persister.Elsewhere.ask`."""
        question = _Question(request, asyncio.get_running_loop().create_future())
        line = _Line(node_id, type(request), request.key.group_id)
        waiting = self._waiting.get(line)
        if waiting is None:
            self._waiting[line] = deque((question,))
            self._tasks.start(self._work(line), name=f"ask for states of share partitions at node {node_id}")
        else:
            waiting.append(question)
        return await question.answer

    def retain(self, alive: frozenset[NodeId]) -> None:
        """These brokers are alive, and no others: what the others were asked is not answered any more."""
        self._peers.retain(alive)

    def close(self) -> None:
        """Ask nothing any more."""
        self._peers.close()

    async def _work(self, line: _Line) -> None:
        """Ask until no question waits."""
        waiting = self._waiting[line]
        try:
            while waiting:
                if batch := _take_batch(waiting):
                    await self._send(line, batch)
        finally:
            del self._waiting[line]
            for question in waiting:  # the node is stopping
                question.answer.cancel()

    async def _send(self, line: _Line, batch: _Batch) -> None:
        messages = importlib.import_module(_MESSAGES)
        results: Mapping[ShareStateKey, Result] = {}
        unanswered = Refused(ErrorCode.unknown_server_error, "The share coordinator has answered other questions.")
        try:
            response: Any = await self._peers.find(line.node_id).call(
                _APIS[line.kind],
                messages.build_request([question.request for question in batch.values()]),
                timeout_ms=TIMEOUT_MS,
            )
        except PeerUnavailableError as error:
            unanswered = Refused(ErrorCode.network_exception, str(error))
        except asyncio.CancelledError:
            for question in batch.values():
                question.answer.cancel()
            raise
        else:
            results = messages.read_response_message(line.kind, line.group_id, response)
        for key, question in batch.items():
            if not question.answer.done():  # else its asker has gone
                question.answer.set_result(results.get(key, unanswered))


def _take_batch(waiting: deque[_Question]) -> _Batch:
    """Take the questions that go into one message: one for each share partition, by which answers are told apart.

    A question whose asker has gone is not asked: a change that was given up must not be made after the one that took its place.
    """
    batch: dict[ShareStateKey, _Question] = {}
    later: list[_Question] = []
    while waiting and len(batch) < STATES:
        question = waiting.popleft()
        if question.answer.done():
            continue
        if question.request.key in batch:
            later.append(question)
        else:
            batch[question.request.key] = question
    waiting.extendleft(reversed(later))
    return batch
