"""Raises and lowers ``min.insync.replicas``, of topics and of all brokers, while replicas leave and join the in-sync sets (ELR-3)."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final

from esp.controller.image import CLUSTER_DEFAULT, MIN_INSYNC_REPLICAS, ClusterImage
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload import admin_requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 10.0
BACKOFF_S: Final = 0.5
IN_DOUBT_S: Final = 45.0
"""For how long a request that got no answer may still take effect: a broker looks for a controller on its behalf."""


class MinimumSetter:
    """Asks any broker; each call is tried once. No minimum falls below that of the profile, by which the ledger goes.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        topics: the topics of the profile.
        default: the minimum of all brokers at the beginning.
        by_default: whether that of all brokers is changed too.
        image: the newest committed metadata.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        topics: Sequence[TopicProfile],
        *,
        default: int,
        by_default: bool,
        image: Callable[[], ClusterImage],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._own = [topic for topic in topics if MIN_INSYNC_REPLICAS in topic.configs]
        self._default = default
        self._copies = max(topic.replication_factor for topic in topics)
        self._by_default = by_default
        self._image = image
        self._asked: dict[str, tuple[int, float]] = {}

    @property
    def doubtful_minimums(self) -> Mapping[str, int]:
        """By topic, the greatest minimum that was asked for, and may still come into force."""
        now_s = asyncio.get_running_loop().time()
        asked = {name: minimum for name, (minimum, until_s) in self._asked.items() if now_s < until_s}
        default = asked.pop(CLUSTER_DEFAULT, None)
        if default is not None:
            for topic in self._image().topics_by_id.values():
                if MIN_INSYNC_REPLICAS not in topic.configs:
                    asked[topic.name] = default
        return asked

    async def run(self) -> None:
        """Change minimums until told to stop."""
        while not self.is_stopping:
            try:
                await self._change()
                await asyncio.sleep(self._rng.uniform(0.1, 3))
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self._client.name, error.code.name)
                await asyncio.sleep(BACKOFF_S)

    async def _change(self) -> None:
        """Give one resource another minimum.

        Raises:
            NoAnswerError, RefusedError: it may have the old one still.
        """
        rng = self._rng
        if self._by_default and (not self._own or rng.random() < 0.5):
            kind, name, least = admin_requests.BROKER, CLUSTER_DEFAULT, self._default
        elif self._own:
            topic = rng.choice(self._own)
            kind, name, least = admin_requests.TOPIC, topic.name, topic.min_insync_replicas
        else:
            return
        minimum = rng.randint(least, max(least, self._copies))
        now_s = asyncio.get_running_loop().time()
        before, until_s = self._asked.get(name, (0, 0.0))
        is_certain = now_s >= until_s  # nothing of before is in doubt
        self._asked[name] = (minimum if is_certain else max(minimum, before)), now_s + IN_DOUBT_S
        request = admin_requests.alter_configs(kind, {name: {MIN_INSYNC_REPLICAS: str(minimum)}})
        version = admin_requests.INCREMENTAL_ALTER_CONFIGS_VERSION
        connection = await self._client.any_broker()
        answer = await connection.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request, TIMEOUT_S)
        if answer.responses[0].error_code is not ErrorCode.none:
            raise RefusedError(answer.responses[0].error_code)
        if is_certain:
            del self._asked[name]
        self._history.on_done(self._client.name, "minimum changed", f"{name or 'all brokers'}: {minimum}")
