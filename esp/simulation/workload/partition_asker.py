"""A client that asks for as many partitions as it is let, at any broker: requests that only validate count, and change nothing."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.client_quotas import CONTROLLER_MUTATION_RATE, client_alone
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.mutation_quota_checker import Grant, MutationQuotaChecker
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

CLIENT_ID: Final = "partition asker"

RATE: Final = 1.0
"""Partitions a second."""

PARTITIONS: Final = (1, 15)
"""The least and most partitions of a request: in the mean a third less than what all windows allow at once."""

PAUSE_S: Final = (0.0, 0.3)
TIMEOUT_S: Final = 20.0
"""Longer than the longest throttle: a client that gives up before comes by another connection, which is not muted."""

_CREATE_VERSION: Final = 7
_ALTER_VERSION: Final = 1


class PartitionAsker:
    """Gives itself a quota, and uses it up.

    Args:
        client: its connections, whose client id is :data:`CLIENT_ID`.
        rng: its own stream of randomness.
        history: counts what was not answered.
        checker: judges the answers.
        image_at: the metadata that the node at an address has published.
        epoch: returns the last epoch of the quorum that any node has led.
        now_s: returns the time.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        checker: MutationQuotaChecker,
        image_at: Callable[[str], ClusterImage],
        epoch: Callable[[], int],
        now_s: Callable[[], float],
    ) -> None:
        self.is_stopping = False
        self.answered_s = 0.0
        """The time at which the last request was sent that was answered."""
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._image_at = image_at
        self._epoch = epoch
        self._now_s = now_s
        self._has_quota = False

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            try:
                if self._has_quota:
                    await self._ask()
                else:
                    await self._set_quota()
            except NoAnswerError as error:
                self._history.on_no_answer(CLIENT_ID, str(error))

    async def _set_quota(self) -> None:
        connection = await self._client.any_broker()
        entry = {
            "entity": [{"entity_type": part.type, "entity_name": part.name} for part in client_alone(CLIENT_ID)],
            "ops": [{"key": CONTROLLER_MUTATION_RATE, "value": RATE, "remove": False}],
        }
        request = build(ApiKey.ALTER_CLIENT_QUOTAS, _ALTER_VERSION, {"entries": [entry], "validate_only": False})
        sent_s = self._now_s()
        answer = await connection.call(ApiKey.ALTER_CLIENT_QUOTAS, _ALTER_VERSION, request, TIMEOUT_S)
        self.answered_s = sent_s
        self._has_quota = all(entry.error_code is ErrorCode.none for entry in answer.entries)

    async def _ask(self) -> None:
        connection = await self._client.any_broker()
        host = connection.address.host
        is_counted = CONTROLLER_MUTATION_RATE in self._image_at(host).client_quotas.get(client_alone(CLIENT_ID), {})
        partitions = self._rng.randint(*PARTITIONS)
        topic = {"name": "no-such-topic", "num_partitions": partitions, "replication_factor": 1}
        content = {"topics": [topic], "timeout": 1000, "validate_only": True}
        epoch, sent_s = self._epoch(), self._now_s()
        answer = await connection.call(
            ApiKey.CREATE_TOPICS, _CREATE_VERSION, build(ApiKey.CREATE_TOPICS, _CREATE_VERSION, content), TIMEOUT_S
        )
        self.answered_s = sent_s
        code = answer.topics[0].error_code
        if code is ErrorCode.throttling_quota_exceeded:
            self._checker.refused += 1
        elif code is ErrorCode.none and is_counted:
            self._checker.on_grant(Grant(sent_s, self._now_s(), partitions), epoch, self._epoch())
