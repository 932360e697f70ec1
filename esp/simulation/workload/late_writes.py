"""Writes of states that come to a share coordinator late, and once more: they were held up on a connection that their leader has left.

By then another leader may have read the state, or an administrator may have begun it again: such a write must be refused (SHARE-20). One of
a leader that is still in place may count twice: that makes no difference (SHARE-21).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Final

from esp.broker.share_states.coordinators import coordinator_key
from esp.broker.share_states.messages import build_request
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.requests import Write
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

KEPT: Final = 40
"""The writes that may still be on their way."""

PAUSE_S: Final = (0.1, 1.5)
TIMEOUT_S: Final = 8.0
_FIND_VERSION: Final = 6
_WRITE_VERSION: Final = 1
_SHARE: Final = 2
"""The kind of coordinator, for FindCoordinator."""

Judge = Callable[[Write], Callable[[], None]]
"""Called with a write that is about to be sent; returns what is called when it has succeeded, which may raise ViolationError."""


class LateWrites:
    """Sends them, one after another.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was sent.
        judge: see there.
        leading_epoch: the epoch in which a broker coordinates a share partition, if it is the newest coordinator and knows that.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        judge: Judge,
        leading_epoch: Callable[[ShareStateKey, Address], int | None],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._judge = judge
        self._leading_epoch = leading_epoch
        self._sent: deque[Write] = deque(maxlen=KEPT)

    def on_sent(self, write: Write) -> None:
        """A leader sends a write."""
        self._sent.append(write)

    async def run(self) -> None:
        """Send until told to stop. Raises ViolationError."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            if self._sent:
                try:
                    await self._send(self._rng.choice(self._sent))
                except NoAnswerError as error:
                    self._history.on_no_answer(self._client.name, str(error))

    async def _send(self, write: Write) -> None:
        """Raises NoAnswerError, ViolationError."""
        key = write.key
        asked = {"key_type": _SHARE, "coordinator_keys": [coordinator_key(key)]}
        broker = await self._client.any_broker()
        answer = await broker.call(
            ApiKey.FIND_COORDINATOR, _FIND_VERSION, build(ApiKey.FIND_COORDINATOR, _FIND_VERSION, asked), TIMEOUT_S
        )
        (found,) = answer.coordinators
        if found.error_code is not ErrorCode.none:
            raise NoAnswerError(f"no coordinator: {found.error_code.name}")
        address = Address(found.host, found.port)
        connection = await self._client.connect(address)
        epoch, on_success = self._leading_epoch(key, address), self._judge(write)
        answer = await connection.call(
            ApiKey.WRITE_SHARE_GROUP_STATE, _WRITE_VERSION, build_request([write]), TIMEOUT_S
        )
        code = answer.results[0].partitions[0].error_code
        self._history.on_done(self._client.name, "late writes of share states", f"{key}: {code.name}")
        # Another coordinator has nothing to write for what it knows already, and says so.
        if code is ErrorCode.none and epoch is not None and self._leading_epoch(key, address) == epoch:
            on_success()
