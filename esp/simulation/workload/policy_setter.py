"""Changes the cleanup policy of a compacted topic, and the least age of what is compacted, while rounds are under way."""

import asyncio
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
PAUSE_S: Final = (0.2, 4.0)
POLICIES: Final = ("compact", "compact", "compact,delete", "delete")
LAGS_MS: Final = ("0", "500", "3600000")


class PolicySetter:
    """Asks any broker; each change is tried once.

    Args:
        topic: the topic's name.
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
    """

    def __init__(self, topic: str, client: ClusterClient, rng: Random, history: History) -> None:
        self.is_stopping = False
        self._topic = topic
        self._client = client
        self._rng = rng
        self._history = history

    async def run(self) -> None:
        """Change settings until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            policy, lag_ms = self._rng.choice(POLICIES), self._rng.choice(LAGS_MS)
            await self._change({"cleanup.policy": policy, "min.compaction.lag.ms": lag_ms})

    async def _change(self, configs: dict[str, str]) -> None:
        request = admin_requests.alter_configs(admin_requests.TOPIC, {self._topic: configs})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        try:
            connection = await self._client.any_broker()
            answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
        except NoAnswerError as error:
            self._history.on_no_answer(self._client.name, str(error))
            return
        code = ErrorCode(answer.responses[0].error_code)
        if code is ErrorCode.none:
            self._history.on_done(self._client.name, "policy changed", f"{configs}")
        else:
            self._history.on_refusal(self._client.name, code.name)
