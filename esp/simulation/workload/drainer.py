"""Drains brokers while everything else goes on, one at a time: a broker that is let be again often holds nothing by then, as a new one."""

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Final

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.settings.rebalance import DRAINING
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
IN_DOUBT_S: Final = 45.0
"""For how long a request that got no answer may still take effect: a broker looks for a controller on its behalf."""

LET_BE_SHARE: Final = 0.9
"""The share of the drained brokers whose draining is taken back: the others are drained until their turn comes again, or to the end."""


class Drainer:
    """Asks the broker that is to be drained, as settings of one broker can be changed through that broker only.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        brokers: the brokers with their addresses.
    """

    def __init__(
        self, client: ClusterClient, rng: Random, history: History, brokers: Sequence[tuple[int, Address]]
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._brokers = tuple(brokers)
        self._doubtful_until_s = 0.0

    async def run(self) -> None:
        """Drain brokers until told to stop; returns when nothing that was asked for can happen any more."""
        while not self.is_stopping:
            broker = self._rng.choice(self._brokers)
            is_draining = await self._set(broker, "true")
            await asyncio.sleep(self._rng.uniform(3, 25))
            if is_draining and self._rng.random() < LET_BE_SHARE:
                await self._set(broker, "false")
            await asyncio.sleep(self._rng.uniform(1, 10))
        await asyncio.sleep(max(0.0, self._doubtful_until_s - asyncio.get_running_loop().time()))

    async def _set(self, broker: tuple[int, Address], value: str) -> bool:
        node_id, address = broker
        try:
            connection = await self._client.connect(address)
            request = admin_requests.alter_configs(admin_requests.BROKER, {str(node_id): {DRAINING: value}})
            version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
            answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
        except NoAnswerError as error:
            self._history.on_no_answer(self._client.name, str(error))
            self._doubtful_until_s = asyncio.get_running_loop().time() + IN_DOUBT_S
            return True  # perhaps
        (response,) = answer.responses
        if response.error_code is not ErrorCode.none:
            self._history.on_refusal(self._client.name, RefusedError(response.error_code).code.name)
            return False
        self._history.on_done(
            self._client.name, "broker drained" if value == "true" else "broker undrained", f"{node_id}"
        )
        return True
