"""Changes the voters of the metadata quorum while everything else goes on: controllers are added and removed, one at a time (KIP-853)."""

import asyncio
import uuid
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
CHANGE_S: Final = (1.0, 3.0, 9.0)
"""The time that a controller may take to be added."""

DOUBT_S: Final = 20.0
"""The time within which a change without a definite answer may still be done."""


class QuorumAdministrator:
    """Asks any broker for the voters, then for one change; each is tried once.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        controllers: where each controller listens for the others.
    """

    def __init__(
        self, client: ClusterClient, rng: Random, history: History, controllers: Sequence[tuple[int, Address]]
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._controllers = tuple(controllers)
        self._doubts: dict[int, float] = {}

    def doubtful(self, now_s: float) -> list[int]:
        """The controllers that may still be added or removed by what was asked for before ``now_s``."""
        return [node_id for node_id, until_s in self._doubts.items() if until_s > now_s]

    async def run(self) -> None:
        """Change the voters until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(0.3, 6))
            try:
                await self._change()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
            except RefusedError as error:
                self._history.on_refusal(self._client.name, error.code.name)

    async def _change(self) -> None:
        voters, observers = await self._describe()
        node_id, address = self._rng.choice(self._controllers)
        directory_id = voters.get(node_id) or observers.get(node_id)
        if directory_id is None or self.is_stopping:
            return
        is_other_disk = self._rng.random() < 0.1
        if is_other_disk:
            directory_id = uuid.UUID(int=self._rng.getrandbits(128), version=4)
        self._doubts[node_id] = asyncio.get_running_loop().time() + DOUBT_S
        removes = node_id in voters
        code = await (self._remove(node_id, directory_id) if removes else self._add(node_id, directory_id, address))
        if code is not ErrorCode.request_timed_out:
            del self._doubts[node_id]
        if code is not ErrorCode.none:
            raise RefusedError(code)
        if is_other_disk:
            raise ViolationError("INV-RAFT-VOTERS", self._client.name, f"node {node_id} votes with any disk (RAFT-45)")
        self._history.on_done(self._client.name, "voter removed" if removes else "voter added", f"node {node_id}")

    async def _add(self, node_id: int, directory_id: uuid.UUID, address: Address) -> ErrorCode:
        request = admin_requests.add_voter(
            node_id,
            directory_id,
            address,
            timeout_s=self._rng.choice(CHANGE_S),
            waits=self._rng.random() < 0.8,
        )
        return _code(await self._call(ApiKey.ADD_RAFT_VOTER, admin_requests.ADD_RAFT_VOTER_VERSION, request))

    async def _remove(self, node_id: int, directory_id: uuid.UUID) -> ErrorCode:
        request = admin_requests.remove_voter(node_id, directory_id)
        return _code(await self._call(ApiKey.REMOVE_RAFT_VOTER, admin_requests.REMOVE_RAFT_VOTER_VERSION, request))

    async def _describe(self) -> tuple[dict[int, uuid.UUID], dict[int, uuid.UUID]]:
        """The directories of voters and observers. Raises NoAnswerError, RefusedError."""
        answer = await self._call(
            ApiKey.DESCRIBE_QUORUM, admin_requests.DESCRIBE_QUORUM_VERSION, admin_requests.describe_quorum()
        )
        _require_success(answer.error_code)
        partition = answer.topics[0].partitions[0]
        _require_success(partition.error_code)
        return _directories(partition.current_voters), _directories(partition.observers)

    async def _call(self, api_key: ApiKey, version: int, request: Any) -> Any:
        connection = await self._client.any_broker()
        return await connection.call(api_key, version, request, TIMEOUT_S)


def _directories(replicas: Sequence[Any]) -> dict[int, uuid.UUID]:
    return {
        replica.replica_id: replica.replica_directory_id
        for replica in replicas
        if replica.replica_directory_id is not None
    }


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)


def _require_success(code: Any) -> None:
    if code is not ErrorCode.none:
        raise RefusedError(code)
