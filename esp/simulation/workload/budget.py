"""Lets self-repair copy as fast as its copies need to end, where it was held back as long as faults came (REPAIR-4)."""

import asyncio
from typing import Final

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History

BUDGET: Final = "rebalance.bytes.per.second.max"
TIMEOUT_S: Final = 10.0
RETRY_S: Final = 1.0

STILL_S: Final = 30.0
"""The time for which it stays as it is: within less, a controller that nothing disturbs any more has withdrawn its repairs (REPAIR-3)."""


class RepairBudget:
    """Asks any broker, until one says that it is done.

    Args:
        client: its connections.
        history: counts what was done.
    """

    def __init__(self, client: ClusterClient, history: History) -> None:
        self._is_over = asyncio.Event()
        self._client = client
        self._history = history

    def stop(self) -> None:
        """The faults are over."""
        self._is_over.set()

    async def run(self, bytes_per_s: int) -> None:
        """Wait until the faults are over, and some time more; then set the budget of all brokers."""
        await self._is_over.wait()
        await asyncio.sleep(STILL_S)
        is_set = False
        while not is_set:
            is_set = await self._set(bytes_per_s)
            await asyncio.sleep(RETRY_S)

    async def _set(self, bytes_per_s: int) -> bool:
        request = admin_requests.alter_configs(admin_requests.BROKER, {"": {BUDGET: str(bytes_per_s)}})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        try:
            connection = await self._client.any_broker()
            answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
        except NoAnswerError as error:
            self._history.on_no_answer(self._client.name, str(error))
            return False
        (response,) = answer.responses
        if response.error_code is not ErrorCode.none:
            self._history.on_refusal(self._client.name, ErrorCode(response.error_code).name)
            return False
        self._history.on_done(self._client.name, "repair budget set", f"{bytes_per_s}")
        return True
