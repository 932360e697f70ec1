"""A client that asks brokers for groups that may be closed to it: heartbeats of a member that is not there need Read on the group."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.access_checker import AccessChecker
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.rule_setter import GROUP, KEPT_MAX
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.01, 0.4)
_TIMEOUT_S: Final = 5.0
_VERSION: Final = 4


class AccessProber:
    """Asks any broker for one of the last groups.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was not answered.
        checker: judges the answers.
        node_at: the node that listens at an address.
        host: the client's own address.
        groups: the number of names that there are.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        checker: AccessChecker,
        node_at: Callable[[str], SimulatedNode],
        host: str,
        groups: Callable[[], int],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._host = host
        self._groups = groups

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            try:
                await self._ask()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))

    async def _ask(self) -> None:
        newest = self._groups()
        group = GROUP.format(self._rng.randint(max(1, newest - 2 * KEPT_MAX), newest + 1))
        connection = await self._client.any_broker()
        question = self._checker.ask(self._node_at(connection.address.host), group)
        request = build(ApiKey.HEARTBEAT, _VERSION, {"group_id": group, "member_id": "none", "generation_id": 1})
        answer = await connection.call(ApiKey.HEARTBEAT, _VERSION, request, _TIMEOUT_S)
        is_denied = answer.error_code is ErrorCode.group_authorization_failed
        self._checker.on_answer(question, self._host, is_denied=is_denied)
