"""Administrators: topics are created and deleted, and created again under the same name."""

import asyncio
import dataclasses
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.simulation.profile import TopicProfile
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError

TIMEOUT_S: Final = 10.0


class Administrator:
    """Asks any broker; each call is tried once.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        pattern: what the topics that it creates and deletes are like, but for their names and numbers of partitions.
    """

    def __init__(self, client: ClusterClient, rng: Random, pattern: TopicProfile) -> None:
        self.is_stopping = False
        self.client = client
        self._rng = rng
        self._pattern = pattern

    async def create(self, topic: TopicProfile) -> None:
        """Create a topic; one that is there already is well.

        Raises:
            NoAnswerError, RefusedError: it may not be there.
        """
        connection = await self.client.any_broker()
        answer = await connection.call(
            ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, requests.create_topic(topic, TIMEOUT_S), TIMEOUT_S
        )
        _require_success(answer.topics[0].error_code, ErrorCode.topic_already_exists)

    async def delete(self, name: str) -> None:
        """Delete a topic; one that is not there is well.

        Raises:
            NoAnswerError, RefusedError: it may be there still.
        """
        connection = await self.client.any_broker()
        answer = await connection.call(
            ApiKey.DELETE_TOPICS, requests.DELETE_TOPICS_VERSION, requests.delete_topic(name, TIMEOUT_S), TIMEOUT_S
        )
        _require_success(answer.responses[0].error_code, ErrorCode.unknown_topic_or_partition)

    async def run(self) -> None:
        """Create and delete a topic of its own until told to stop."""
        while not self.is_stopping:
            name = f"passing-{self._rng.randrange(2)}"
            topic = dataclasses.replace(self._pattern, name=name, partitions=self._rng.randint(1, 2))
            try:
                await (self.create(topic) if self._rng.random() < 0.5 else self.delete(name))
            except (NoAnswerError, RefusedError):
                await asyncio.sleep(0.5)
            await asyncio.sleep(self._rng.uniform(0.5, 6))


def _require_success(code: Any, *also: ErrorCode) -> None:
    if code is not ErrorCode.none and code not in also:
        raise RefusedError(code)
