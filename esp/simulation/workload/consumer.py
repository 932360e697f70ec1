"""Readers by assignment: each partition from its start, up to what is committed, again and again."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey
from esp.records.batch_header import HEADER_SIZE, BatchHeader, read_header
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History

FETCH_TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 0.1

LOOK_AGAIN_POLLS: Final = 20
"""Polls without a record after which a reader that knows of more looks for the leader anew."""

Seen = Callable[[str, TopicId, int, int, list[tuple[BatchHeader, memoryview]]], None]
"""Told of what an answer holds: reader, topic, partition, the offset that was asked for, the batches."""


ToldStart = Callable[[str, tuple[TopicId, int], int], None]
"""Told where a log starts: reader and partition, topic id and partition, the offset."""

IsSpoilt = Callable[[memoryview], bool]
"""True if bits of a batch flipped on its way to the client."""


def nothing_is_spoilt(_batch: memoryview) -> bool:
    """For a run in which no bits flip."""
    return False


def split_batches(records: Any, is_spoilt: IsSpoilt) -> list[tuple[BatchHeader, memoryview]]:
    """The whole batches of an answer, up to the first one that is spoilt."""
    batches = []
    left = memoryview(records or b"")
    while len(left) >= HEADER_SIZE:
        header = read_header(left)
        if len(left) < header.size or is_spoilt(left[: header.size]):
            break
        batches.append((header, left[: header.size]))
        left = left[header.size :]
    return batches


class Consumer:
    """Reads partitions of any topics, each in a task of its own.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was read.
        seen: told of every answer with records.
        told_start: told where a log starts, when an offset was out of range.
        is_spoilt: whether bits of a batch flipped on the way here: it is asked for again.
        wait_s: how long a broker may wait for records.
    """

    isolation_level: ClassVar[int] = 0
    """As in a fetch request: 1 for a reader of what is committed."""

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        seen: Seen,
        told_start: ToldStart,
        *,
        is_spoilt: IsSpoilt = nothing_is_spoilt,
        wait_s: float = 0.5,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._seen = seen
        self._told_start = told_start
        self._is_spoilt = is_spoilt
        self._wait_s = wait_s

    async def run(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """Read one partition until told to stop; now and then from the start again."""
        offset = 0
        while not self.is_stopping:
            try:
                offset = await self.poll(topic, topic_id, partition, offset)
            except NoAnswerError as error:
                self._history.on_no_answer(f"{self._client.name} of {topic}-{partition}", str(error))
                self._client.forget_leader(topic, partition)
                await asyncio.sleep(PAUSE_S)
            if self._rng.random() < 0.02:
                offset = 0
            await asyncio.sleep(PAUSE_S * self._rng.uniform(0.2, 1.8))

    async def read_to(self, topic: str, topic_id: TopicId, partition: int, end_offset: int, tries: int) -> int:
        """Read from the start up to an offset; returns how far it came in that many polls.

        A leader that was left behind, and reads on with its clients, has nothing new for ever: the leader is looked for anew then, as real
        clients do in time.
        """
        offset = idle = 0
        for _ in range(tries):
            if offset >= end_offset:
                break
            before = offset
            try:
                offset = await self.poll(topic, topic_id, partition, offset)
            except NoAnswerError:
                self._client.forget_leader(topic, partition)
                await asyncio.sleep(PAUSE_S)
            idle = idle + 1 if offset == before else 0
            if idle % LOOK_AGAIN_POLLS == LOOK_AGAIN_POLLS - 1:
                self._client.forget_leader(topic, partition)
        return offset

    async def poll(self, topic: str, topic_id: TopicId, partition: int, offset: int) -> int:
        """Fetch once from ``offset``; returns the offset to go on from.

        Raises:
            NoAnswerError: there is no answer, or an error that newer metadata may heal.
        """
        connection, leadership = await self._client.leader(topic, partition)
        if self._client.topic_ids.get(topic) != topic_id:
            raise NoAnswerError("the topic is not there, or another one of the name")
        epoch = leadership.leader_epoch if self._rng.random() < 0.5 else -1
        request = requests.fetch(
            topic_id,
            partition,
            offset,
            leader_epoch=epoch,
            max_bytes=self._rng.choice((1, 1000, 1 << 20)),
            wait_s=self._wait_s,
            isolation_level=self.isolation_level,
        )
        answer = await connection.call(ApiKey.FETCH, requests.FETCH_VERSION, request, FETCH_TIMEOUT_S)
        if answer.error_code is not ErrorCode.none or not answer.responses:
            raise NoAnswerError(answer.error_code.name)
        part = answer.responses[0].partitions[0]
        if part.error_code is ErrorCode.offset_out_of_range:
            start_offset = await self._find_start(connection, topic, topic_id, partition)
            if start_offset > offset:
                return start_offset
        if part.error_code is not ErrorCode.none:
            raise NoAnswerError(part.error_code.name)
        return self._take(topic, topic_id, partition, offset, part)

    async def _find_start(self, connection: ClientConnection, topic: str, topic_id: TopicId, partition: int) -> int:
        """The offset at which the log starts, as ``auto.offset.reset=earliest`` asks. Raises NoAnswerError."""
        request = requests.earliest_offset(topic, partition)
        answer = await connection.call(ApiKey.LIST_OFFSETS, requests.LIST_OFFSETS_VERSION, request, FETCH_TIMEOUT_S)
        part = answer.topics[0].partitions[0]
        if part.error_code is not ErrorCode.none:
            raise NoAnswerError(part.error_code.name)
        self._told_start(f"{self._client.name} of {topic}-{partition}", (topic_id, partition), part.offset)
        return int(part.offset)

    def _take(self, _topic: str, topic_id: TopicId, partition: int, offset: int, part: Any) -> int:
        batches = split_batches(part.records, self._is_spoilt)
        if not batches:
            return offset
        self._seen(self._client.name, topic_id, partition, offset, batches)
        self._history.read_records += sum(header.record_count for header, _ in batches)
        return batches[-1][0].next_offset
