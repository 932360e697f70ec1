"""Throttles replication while everything else goes on, as Kafka's reassignment tool does: rates of all brokers, and lists of each topic."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from esp.controller.image import ClusterImage, TopicImage
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
IN_DOUBT_S: Final = 45.0
"""For how long a request that got no answer may still take effect: a broker looks for a controller on its behalf."""

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS: Final = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
LEAST_RATE: Final = 500
MOST_RATE: Final = 10_000
"""Bytes per second: of a copy that has some tens of thousands of them, a part."""

KEPT_RATES: Final = (10_000, 50_000)
"""The rates that stay to the end of some runs, of little and of much load: everything has to become whole all the same (THROTTLE-3)."""

RETRY_S: Final = 2.0


class ReplicationThrottler:
    """Asks any broker; each call is tried once, until the end: then throttles are removed, or one stays.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        image: the newest committed metadata.
        kept_rate: what stays in the end of some runs.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        *,
        kept_rate: int = KEPT_RATES[0],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._image = image
        self._kept_rate = kept_rate
        self._is_throttled = False
        self._doubtful_until_s = 0.0

    async def run(self) -> None:
        """Set, change and remove throttles until told to stop; returns when nothing but what shall stay can be in force."""
        while not self.is_stopping:
            await self._try(self._draw_rates(), self._draw_lists)
            await asyncio.sleep(self._rng.uniform(0.5, 8))
        await self._end(self._kept_rate if self._rng.random() < 0.5 else None)

    async def _end(self, rate: int | None) -> None:
        """Let ``rate`` be in force for all replicas, or none; again when what was asked for before cannot happen any more."""
        rates = dict.fromkeys(RATES, None if rate is None else str(rate))
        lists = dict.fromkeys(REPLICAS, None if rate is None else "*")
        last_s = self._doubtful_until_s
        is_done = False
        while not is_done:
            is_last = asyncio.get_running_loop().time() >= last_s
            is_done = await self._try(rates, lambda _topic: lists) and is_last
            await asyncio.sleep(RETRY_S)

    def _draw_rates(self) -> dict[str, str | None]:
        rng = self._rng
        self._is_throttled = not self._is_throttled or rng.random() < 0.4
        if not self._is_throttled:
            return dict.fromkeys(RATES)
        drawn = rng.choice(RATES) if rng.random() < 0.4 else None  # else both
        return {name: str(self._draw_rate()) if drawn in (None, name) else None for name in RATES}

    def _draw_rate(self) -> int:
        rng = self._rng
        return 0 if rng.random() < 0.1 else int(LEAST_RATE * (MOST_RATE / LEAST_RATE) ** rng.random())

    def _draw_lists(self, topic: TopicImage) -> dict[str, str | None]:
        """All replicas, or those that a reassignment reads and writes and some others, or none."""
        if not self._is_throttled:
            return dict.fromkeys(REPLICAS)
        if self._rng.random() < 0.5:
            return dict.fromkeys(REPLICAS, "*")
        pairs = [
            f"{state.partition}:{replica}"
            for state in topic.partitions
            for replica in state.replicas
            if state.is_reassigning or self._rng.random() < 0.5
        ]
        return dict.fromkeys(REPLICAS, ",".join(pairs) or None)

    async def _try(
        self, rates: Mapping[str, str | None], lists: Callable[[TopicImage], Mapping[str, str | None]]
    ) -> bool:
        """Ask for rates of all brokers and lists of each topic; returns whether all was done."""
        changes = {topic.name: lists(topic) for topic in self._image().topics_by_id.values()}
        try:
            await self._ask(admin_requests.BROKER, {"": rates})
            if changes:
                await self._ask(admin_requests.TOPIC, changes)
        except NoAnswerError as error:
            self._history.on_no_answer(self._client.name, str(error))
            self._doubtful_until_s = asyncio.get_running_loop().time() + IN_DOUBT_S
        except RefusedError as error:
            self._history.on_refusal(self._client.name, error.code.name)
        else:
            what = "throttles set" if any(rates.values()) else "throttles removed"
            self._history.on_done(self._client.name, what, f"{dict(rates)}")
            return True
        return False

    async def _ask(self, kind: int, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        connection = await self._client.any_broker()
        request = admin_requests.alter_configs(kind, changes)
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
        for response in answer.responses:
            if response.error_code not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition):  # it was deleted
                raise RefusedError(response.error_code)
