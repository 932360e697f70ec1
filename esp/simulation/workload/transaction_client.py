"""Asks the coordinator of a transactional id: finds it, and looks for another one when it is not that any more."""

import asyncio
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.workload import transaction_requests as requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError

TIMEOUT_S: Final = 5.0

PATIENCE_S: Final = 10.0
"""The time for which the same coordinator is asked that cannot end the transaction before: then an application gives up, and is started
again. The coordinator may be cut off from all other nodes, and not know that it was replaced.
"""

LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
        ErrorCode.unknown_server_error,
    }
)
"""Errors after which the request is sent again, to the coordinator that there is by then; it may have been carried out."""


class TransactionClient:
    """A client that knows the coordinator of one transactional id.

    Args:
        client: its connections.
        transactional_id: the id.
    """

    def __init__(self, client: ClusterClient, transactional_id: str) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self._coordinator: Address | None = None
        self._busy_since_s: float | None = None

    async def call(self, api_key: ApiKey, version: int, message: Any) -> Any:
        """Ask the coordinator.

        Raises:
            NoAnswerError: there is none, or it does not answer.
        """
        if self._coordinator is None:
            self._coordinator = await self._find()
        try:
            connection = await self.client.connect(self._coordinator)
            return await connection.call(api_key, version, message, TIMEOUT_S)
        except NoAnswerError:
            self._coordinator = None
            raise

    def on_code(self, code: ErrorCode) -> None:
        """The coordinator has answered so: look for another one if it is none, or is busy for too long."""
        now_s = asyncio.get_running_loop().time()
        if code is not ErrorCode.concurrent_transactions:
            self._busy_since_s = None
        elif self._busy_since_s is None:
            self._busy_since_s = now_s
        if code in LOOK_AGAIN or (self._busy_since_s is not None and now_s - self._busy_since_s > PATIENCE_S):
            self._busy_since_s = None
            self.forget_coordinator()

    def forget_coordinator(self) -> None:
        """Ask anew before the next request."""
        self._coordinator = None

    async def _find(self) -> Address:
        connection = await self.client.any_broker()
        answer = await connection.call(
            ApiKey.FIND_COORDINATOR,
            requests.FIND_COORDINATOR_VERSION,
            requests.find_coordinator(self.transactional_id),
            TIMEOUT_S,
        )
        found = answer.coordinators[0]
        if found.error_code is not ErrorCode.none:
            raise NoAnswerError(f"no coordinator: {found.error_code.name}")
        return Address(found.host, found.port)
