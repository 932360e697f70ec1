"""Alters and deletes the offsets of a share group whose members have left, deletes the group, and asks how far it has come."""

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

from esp.controller.image import TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload import requests, share_requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import LOOK_AGAIN, GroupClient
from esp.simulation.workload.history import History

TRIES: Final = 8
BACKOFF_S: Final = 0.4
_DONE: Final = frozenset((ErrorCode.none, ErrorCode.topic_already_exists))
BEYOND_SHARE: Final = 0.1
"""The share of the alterations to an offset that the partition does not have yet."""


class ShareAdministrator:
    """One group's.

    Args:
        client: asks the group's coordinator.
        rng: its own stream of randomness.
        history: counts what was done.
        topics: the topics that the group reads.
        committed_end: the end of what is committed of a partition.
    """

    def __init__(
        self,
        client: GroupClient,
        rng: Random,
        history: History,
        topics: Callable[[], list[TopicImage]],
        committed_end: Callable[[TopicId, int], int],
    ) -> None:
        self._client = client
        self._rng = rng
        self._history = history
        self._topics = topics
        self._committed_end = committed_end

    @property
    def name(self) -> str:
        """The client id."""
        return self._client.client.name

    def avoid(self, addresses: frozenset[Address]) -> None:
        """Ask these brokers nothing."""
        self._client.client.avoided = addresses

    async def configure(self, settings: Mapping[str, str]) -> None:
        """Set settings of the group; tried until it is done."""
        request = share_requests.configure(self._client.group_id, settings)
        await self._insist(ApiKey.INCREMENTAL_ALTER_CONFIGS, share_requests.CONFIGS_VERSION, request)

    async def make_queue(self, queue: TopicProfile) -> None:
        """Create a dead-letter queue, unless it is there; tried until it is done."""
        await self._insist(ApiKey.CREATE_TOPICS, requests.CREATE_TOPICS_VERSION, requests.create_topic(queue, 5.0))

    async def _insist(self, key: ApiKey, version: int, request: Any) -> None:
        while True:
            try:
                connection = await self._client.client.any_broker()
                answer = await connection.call(key, version, request, 5.0)
                parts = answer.topics if key is ApiKey.CREATE_TOPICS else answer.responses
                if all(part.error_code in _DONE for part in parts):
                    return
            except NoAnswerError as error:
                self._history.on_no_answer(self.name, str(error))
            await asyncio.sleep(BACKOFF_S)

    async def act(self) -> None:
        """Do one thing to the group, whose members have left, and try for a while."""
        chance, topic = self._rng.random(), self._rng.choice(self._topics())
        if chance < 0.6:
            offsets = {
                number: self._draw_offset(topic.topic_id, number)
                for number in range(len(topic.partitions))
                if self._rng.random() < 0.7
            }
            asked = share_requests.alter_offsets(self._client.group_id, topic.name, offsets)
            key, version, what = (
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                share_requests.ALTER_VERSION,
                "share group offsets altered",
            )
        elif chance < 0.8:
            asked = share_requests.delete_offsets(self._client.group_id, topic.name)
            key, version, what = (
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                share_requests.DELETE_VERSION,
                "share group offsets deleted",
            )
        else:
            asked = share_requests.delete_group(self._client.group_id)
            key, version, what = ApiKey.DELETE_GROUPS, share_requests.DELETE_GROUPS_VERSION, "share groups deleted"
        await self._try(key, version, asked, what, topic.name)

    async def set_back(self) -> None:
        """Let the group, whose members have left, begin at offset 0 again, and try for a while."""
        await asyncio.gather(*(self._set_back(topic) for topic in self._topics()))

    async def _set_back(self, topic: TopicImage) -> None:
        asked = share_requests.alter_offsets(
            self._client.group_id, topic.name, dict.fromkeys(range(len(topic.partitions)), 0)
        )
        key, version = ApiKey.ALTER_SHARE_GROUP_OFFSETS, share_requests.ALTER_VERSION
        await self._try(key, version, asked, "share groups set back", topic.name)

    async def _try(self, key: ApiKey, version: int, asked: Any, what: str, topic: str) -> None:
        for _ in range(TRIES):
            answer = await self._ask(key, version, asked)
            codes = [] if answer is None else _codes(answer)
            if codes and all(code is ErrorCode.none for code in codes):
                self._history.on_done(self.name, what, f"{self._client.group_id}, {topic}")
                return
            for code in codes:
                self._history.on_refusal(self.name, f"{what}: {code.name}")
                if code in LOOK_AGAIN:
                    self._client.forget_coordinator()
            await asyncio.sleep(BACKOFF_S)

    def _draw_offset(self, topic_id: TopicId, partition: int) -> int:
        end = self._committed_end(topic_id, partition)
        if self._rng.random() < BEYOND_SHARE:
            return end + 1_000
        return self._rng.choice((0, end // 2, end, self._rng.randint(0, end)))

    async def grow(self, topic: TopicImage) -> None:
        """Give a topic another partition, or try to."""
        try:
            code = await self._client.client.add_partition(topic)
        except NoAnswerError as error:
            self._history.on_no_answer(self.name, str(error))
            return
        self._history.on_done(self.name, "topics grown", f"{topic.name}: {code.name}")

    async def look(self) -> None:
        """Ask for the group and its offsets."""
        await self._ask(
            ApiKey.SHARE_GROUP_DESCRIBE,
            share_requests.DESCRIBE_VERSION,
            share_requests.describe(self._client.group_id),
        )
        version = self._rng.choice(share_requests.DESCRIBE_OFFSETS_VERSIONS)
        await self._ask(
            ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
            version,
            share_requests.describe_offsets(self._client.group_id, version),
        )

    async def _ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer of the group's coordinator; None if there is none."""
        try:
            reply = await self._client.call(key, version, request)
        except NoAnswerError as error:
            self._history.on_no_answer(self.name, str(error))
            return None
        return reply.answer


def _codes(answer: Any) -> list[ErrorCode]:
    """The errors of an answer, of whichever of the requests."""
    codes = [answer.error_code] if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none else []
    codes += [result.error_code for result in getattr(answer, "results", ())]
    for topic in getattr(answer, "responses", ()):
        codes += [part.error_code for part in getattr(topic, "partitions", ())]
        if hasattr(topic, "error_code"):
            codes.append(topic.error_code)
    return codes or [ErrorCode.none]
