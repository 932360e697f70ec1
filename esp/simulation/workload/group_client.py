"""Asks the coordinator of a group: finds it, and looks for another one when it is not that any more."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.workload import group_requests as requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_dialects import CURRENT, GroupDialect

TIMEOUT_S: Final = 8.0
"""Longer than a coordinator waits for its log (``offsets.commit.timeout.ms``)."""

LOOK_AGAIN: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    }
)
"""Errors that say nothing of the member; what was asked for may have been done."""

LeadingEpoch = Callable[[str, Address], int | None]
"""The epoch in which a broker leads a group's partition, if it is the newest leader and knows that."""


class Reply(NamedTuple):
    """An answer, and what is to be known about it."""

    answer: Any
    asked_s: float
    is_newest: bool
    """True if it came from the newest leader, which knew that when it was asked."""


class GroupClient:
    """A client that finds the coordinator of a group, and asks it.

    Args:
        client: its connections.
        group_id: of which group.
        leading_epoch: see there.
        on_silence: told of the address of a coordinator that let a request wait for too long, and when it was asked.
        dialect: the versions of its requests.
    """

    def __init__(
        self,
        client: ClusterClient,
        group_id: str,
        leading_epoch: LeadingEpoch,
        on_silence: Callable[[Address, float], None],
        dialect: GroupDialect = CURRENT,
    ) -> None:
        self.client = client
        self.group_id = group_id
        self.dialect = dialect
        self._leading_epoch = leading_epoch
        self._on_silence = on_silence
        self._coordinator: Address | None = None

    def forget_coordinator(self) -> None:
        """Ask anew before the next request."""
        self._coordinator = None

    async def call(self, api_key: ApiKey, version: int, message: Any, timeout_s: float = TIMEOUT_S) -> Reply:
        """Ask the coordinator.

        Raises:
            NoAnswerError: there is none, or it does not answer.
        """
        loop = asyncio.get_running_loop()
        if self._coordinator is None:
            self._coordinator = await self._find()
        address = self._coordinator
        asked_s = loop.time()
        try:
            connection = await self.client.connect(address)
            asked_s = loop.time()
            epoch = self._leading_epoch(self.group_id, address)
            answer = await connection.call(api_key, version, message, timeout_s)
        except NoAnswerError:
            self._coordinator = None
            if loop.time() - asked_s >= timeout_s:
                self._on_silence(address, asked_s)
            raise
        is_newest = epoch is not None and self._leading_epoch(self.group_id, address) == epoch
        return Reply(answer, asked_s, is_newest)

    async def _find(self) -> Address:
        connection = await self.client.any_broker()
        asked_s, version = asyncio.get_running_loop().time(), self.dialect.find
        try:
            answer = await connection.call(
                ApiKey.FIND_COORDINATOR, version, requests.find_coordinator(self.group_id, version), TIMEOUT_S
            )
        except NoAnswerError:
            if asyncio.get_running_loop().time() - asked_s >= TIMEOUT_S:
                self._on_silence(connection.address, asked_s)
            raise
        found = answer if version <= requests.LAST_SINGLE_FIND else answer.coordinators[0]
        if found.error_code is not ErrorCode.none:
            raise NoAnswerError(f"no coordinator: {found.error_code.name}")
        return Address(found.host, found.port)
