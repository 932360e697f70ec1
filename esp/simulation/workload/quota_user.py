"""A client that sends as much as it is let: produce requests for a topic that is not there count, and change nothing."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Final

from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.quota_checker import Look, QuotaChecker, Sent
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.0, 0.5)
SIZES: Final = (500, 20_000)
TIMEOUT_S: Final = 15.0
"""As long as the longest throttle: a client that gives up before comes by another connection, which is not muted."""

LOOKED_SHARE: Final = 0.5
"""The share of the throttled requests after which an operator asks the node for the clients that it holds."""

_VERSION: Final = 9


class QuotaUser:
    """Sends by one client id after another, to any broker.

    Args:
        make_client: makes the connections of a client id.
        rng: its own stream of randomness.
        history: counts what was not answered.
        checker: judges the answers.
        node_at: the node that listens at an address.
        client_ids: returns the client ids that are metered now.
        now_s: returns the time.
        numbers: of its connections, none of which another client has.
    """

    def __init__(
        self,
        make_client: Callable[[str], ClusterClient],
        rng: Random,
        history: History,
        checker: QuotaChecker,
        node_at: Callable[[str], SimulatedNode],
        client_ids: Callable[[], Sequence[str]],
        now_s: Callable[[], float],
        numbers: Iterator[int],
    ) -> None:
        self._numbers = numbers
        self.is_stopping = False
        self.answered_s = 0.0
        """The time at which the last request was sent that was answered."""
        self._make_client = make_client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._client_ids = client_ids
        self._now_s = now_s
        self._clients: dict[str, ClusterClient] = {}
        self._operator = make_client("operator")
        self._connections: dict[object, int] = {}

    async def run(self) -> None:
        """Send until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            try:
                await self._send(self._rng.choice(self._client_ids()))
            except NoAnswerError as error:
                self._history.on_no_answer("quota user", str(error))

    async def _send(self, client_id: str) -> None:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = self._make_client(client_id)
        connection = await client.any_broker()
        node = self._node_at(connection.address.host)
        number = self._connections.get(connection)
        if number is None:
            number = self._connections[connection] = next(self._numbers)
        size = self._rng.randint(*SIZES)
        feed = self._checker.feed_of(node)
        sent_s = self._now_s()
        answer = await connection.call(ApiKey.PRODUCE, _VERSION, _request(size), TIMEOUT_S)
        throttle_ms = round(answer.throttle_time.total_seconds() * 1000)
        self.answered_s = sent_s
        sent = Sent(client_id, number, sent_s, self._now_s(), size, throttle_ms)
        self._checker.on_answer(node, feed, sent)
        if throttle_ms and self._rng.random() < LOOKED_SHARE:
            await self._look(connection.address, node, sent)

    async def _look(self, address: Address, node: SimulatedNode, sent: Sent) -> None:
        """Hold a node to the clients that it says it holds."""
        operator = await self._operator.connect(address)
        feed = self._checker.feed_of(node)
        asked_s = self._now_s()
        request = build(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False, "with_held": True})
        answer = await operator.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request, TIMEOUT_S)
        held = {each.client_id for each in answer.held}
        self._checker.on_held(node, feed, sent, Look(held, asked_s, self._now_s()))


def _request(size: int) -> object:
    partition = {"index": 0, "records": bytes(size)}
    topic = {"name": "no such topic", "partition_data": [partition]}
    return build(ApiKey.PRODUCE, _VERSION, {"acks": 1, "timeout": 1000, "topic_data": [topic]})
