"""An administrator that gives client ids quotas, changes them and takes them away."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.model.client_quotas import PRODUCER_BYTE_RATE, QuotaEntity, client_alone, user_and_client
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.quota_checker import USER, QuotaChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.5, 12.0)
"""Long ones are long enough for a client to use up what all windows allow."""

QUOTAS: Final = (2_000, 5_000, 10_000)
"""Bytes a second."""

CLIENTS: Final = 3
"""Client ids that are metered at a time."""

_TIMEOUT_S: Final = 10.0
_VERSION: Final = 1
_EXACT, _DEFAULT = 0, 1


class QuotaSetter:
    """Asks any broker. The entity of a change without an answer is left alone from then on: the change may be made late.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: gets what was acknowledged.
        node_at: the node that listens at an address.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        checker: QuotaChecker,
        node_at: Callable[[str], SimulatedNode],
    ) -> None:
        self.is_stopping = False
        self.client_ids = [self._name(number) for number in range(CLIENTS)]
        """The client ids that are metered now."""
        self._names = CLIENTS
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._quotas: dict[QuotaEntity, float] = {}

    async def run(self) -> None:
        """Change quotas until told to stop."""
        while not self.is_stopping:
            place = self._rng.randrange(CLIENTS)
            entity = self._draw_entity(self.client_ids[place])
            value = None if entity in self._quotas and self._rng.random() < 1 / 3 else self._rng.choice(QUOTAS)
            try:
                is_done = await self._change(entity, value)
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
                is_done = False
            if not is_done:
                note(Excuse.UNANSWERED_QUOTAS)
                self.client_ids[place] = self._name(self._names)
                self._names += 1
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))

    async def _change(self, entity: QuotaEntity, value: float | None) -> bool:
        self._checker.forget(entity)  # until the answer says what became of it
        change = {"key": PRODUCER_BYTE_RATE, "value": value or 0.0, "remove": value is None}
        entry = {
            "entity": [{"entity_type": part.type, "entity_name": part.name} for part in entity],
            "ops": [change],
        }
        connection = await self._client.any_broker()
        node = self._node_at(connection.address.host)
        request = build(ApiKey.ALTER_CLIENT_QUOTAS, _VERSION, {"entries": [entry], "validate_only": False})
        answer = await connection.call(ApiKey.ALTER_CLIENT_QUOTAS, _VERSION, request, _TIMEOUT_S)
        code = answer.entries[0].error_code if answer.entries else ErrorCode.unknown_server_error
        if code is not ErrorCode.none:
            self._history.on_refusal(self._client.name, code.name)
            return False
        self._history.on_done(self._client.name, "quotas set" if value else "quotas removed", str(entity))
        if value is None:
            self._quotas.pop(entity, None)
        else:
            self._quotas[entity] = value
        self._checker.on_changed(node, entity, value)
        await self._describe(connection, node, entity, value)
        return True

    async def _describe(
        self, connection: ClientConnection, node: SimulatedNode, entity: QuotaEntity, value: float | None
    ) -> None:
        """Hold the node that has answered a change to what it tells of the entity's quotas. Raises NoAnswerError."""
        components = [
            {"entity_type": part.type, "match_type": _DEFAULT if part.name is None else _EXACT, "match": part.name}
            for part in entity
        ]
        request = build(ApiKey.DESCRIBE_CLIENT_QUOTAS, _VERSION, {"components": components, "strict": True})
        answer = await connection.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, _VERSION, request, _TIMEOUT_S)
        told = {each.key: each.value for entry in answer.entries for each in entry.values}
        if told != ({} if value is None else {PRODUCER_BYTE_RATE: value}):
            raise ViolationError("INV-QUOTA", node.name, f"{entity} has the quotas {told} after {value} was set")

    def _draw_entity(self, client_id: str) -> QuotaEntity:
        return self._rng.choice(
            (
                client_alone(client_id),
                client_alone(client_id),
                user_and_client(USER, client_id),
                user_and_client(None, client_id),
            )
        )

    @staticmethod
    def _name(number: int) -> str:
        return f"metered-{number}"
