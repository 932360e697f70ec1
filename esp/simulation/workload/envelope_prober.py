"""A client of which brokers pass requests on that the rules of access let pass, or not, by its address alone (INV-ENVELOPE).

Every request of a simulated client, and every one of a broker, is of the same principal. So only the address in an Envelope tells the
controller whose permissions count, and a controller that judged the broker would decide otherwise. Each rule is about a topic that is not
there, and adding partitions is only tried: what is not refused changes nothing.
"""

import asyncio
from random import Random
from typing import Any, Final

from esp.model.acl import AclOperation, AclPermission, PatternType, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.access_checker import PRINCIPAL
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.2, 4.0)
TOPIC: Final = "enclosed-{}"
ASKED_MAX: Final = 3
"""Brokers are asked so often under one rule at most, at once when it was acknowledged: some do not know of it yet."""
_INVARIANT: Final = "INV-ENVELOPE"
_TIMEOUT_S: Final = 10.0
_RULES_VERSION: Final = 3
_PARTITIONS_VERSION: Final = 3
_DECIDED: Final = frozenset((ErrorCode.none, ErrorCode.unknown_topic_or_partition))
"""The answers of a controller that lets the client add partitions to a topic that is not there."""


class EnvelopeProber:
    """Makes a rule, and asks several brokers for what it is about, until told to stop.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was not answered.
        host: the client's own address.
    """

    def __init__(self, client: ClusterClient, rng: Random, history: History, host: str) -> None:
        self.is_stopping = False
        self.judged = 0
        """Answers that were held against the rule."""
        self._client = client
        self._rng = rng
        self._history = history
        self._host = host
        self._number = 0

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            try:
                await self._try_one(self._rng.choice(list(AclPermission)))
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))

    async def _try_one(self, permission: AclPermission) -> None:
        """Let the client alone alter a topic, or the client alone not; then ask.

        Raises:
            NoAnswerError: a broker does not answer; the rule may stay.
            ViolationError: INV-ENVELOPE.
        """
        self._number += 1
        rule = {
            "resource_type": ResourceType.TOPIC,
            "resource_name": TOPIC.format(self._number),
            "principal": PRINCIPAL,
            "host": self._host,
            "operation": AclOperation.ALTER,
            "permission_type": permission,
        }
        made = await self._call(
            ApiKey.CREATE_ACLS,
            _RULES_VERSION,
            {"creations": [{**rule, "resource_pattern_type": PatternType.LITERAL}]},
        )
        if made.results[0].error_code is not ErrorCode.none:
            self._history.on_refusal(self._client.name, made.results[0].error_code.name)
            return
        for _ in range(self._rng.randint(1, ASKED_MAX)):
            self._judge(permission, await self._ask(rule["resource_name"]))
        await self._call(
            ApiKey.DELETE_ACLS,
            _RULES_VERSION,
            {
                "filters": [
                    {
                        "resource_type_filter": rule["resource_type"],
                        "resource_name_filter": rule["resource_name"],
                        "pattern_type_filter": PatternType.LITERAL,
                        "principal_filter": rule["principal"],
                        "host_filter": rule["host"],
                        "operation": rule["operation"],
                        "permission_type": rule["permission_type"],
                    }
                ]
            },
        )

    async def _ask(self, topic: Any) -> ErrorCode:
        content = {
            "topics": [{"name": topic, "count": 2, "assignments": None}],
            "timeout": int(_TIMEOUT_S * 1000),
            "validate_only": True,
        }
        answer = await self._call(ApiKey.CREATE_PARTITIONS, _PARTITIONS_VERSION, content)
        code: ErrorCode = answer.results[0].error_code
        return code

    def _judge(self, permission: AclPermission, code: ErrorCode) -> None:
        """Hold an answer against the rule, which every controller has that was active since it was acknowledged. Raises ViolationError."""
        is_denied = code is ErrorCode.topic_authorization_failed
        if not is_denied and code not in _DECIDED:
            self._history.on_refusal(self._client.name, code.name)
            note(Excuse.UNJUDGED_ENVELOPES)
            return
        self.judged += 1
        if is_denied != (permission is AclPermission.DENY):
            verdict = "denied" if is_denied else "let through"
            raise ViolationError(
                _INVARIANT,
                self._client.name,
                f"a request was {verdict} against the rule about its own address (AUTHZ-6): {permission.name} {TOPIC.format(self._number)}",
            )

    async def _call(self, key: ApiKey, version: int, content: dict[str, Any]) -> Any:
        connection: ClientConnection = await self._client.any_broker()
        return await connection.call(key, version, build(key, version, content), _TIMEOUT_S)
