"""Deletes records up to offsets that often stand within a batch, as Kafka Streams does all the time (DeleteRecords, KIP-107)."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.ids import INTERNAL_TOPICS, TopicPartition
from esp.protocol.registry import ApiKey
from esp.settings.topic_overrides import read_hold_groups
from esp.simulation.checkers.log_start_checker import LogStartChecker
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError, RefusedError
from esp.simulation.workload.history import History

TIMEOUT_S: Final = 5.0
BACKOFF_S: Final = 0.3


FindDurableStart = Callable[[int, TopicPartition, int], int | None]
"""The log start of a partition after a power loss of a node, if the node leads it in that epoch."""


OnHeldDeleted = Callable[[TopicPartition, Sequence[str], int, int], None]
"""Takes a partition, the groups that hold it, the largest offset at which it may have begun, and the one up to which it is deleted."""


class RecordDeleter:
    """Asks a partition's leader; each call is tried once.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        image: the newest committed metadata.
        checker: told of what is asked for, and answered; knows what is committed.
        find_durable_start: looks at the device of a node that answered.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        checker: LogStartChecker,
        find_durable_start: FindDurableStart,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._image = image
        self._checker = checker
        self._find_durable_start = find_durable_start
        self.on_held_deleted: OnHeldDeleted = lambda _name, _groups, _start_offset, _offset: None
        """Told of a deletion of records that groups hold, which is answered."""

    async def run(self) -> None:
        """Delete records of any partitions until told to stop."""
        while not self.is_stopping:
            try:
                await self._delete()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
                await asyncio.sleep(BACKOFF_S)
            except RefusedError as error:
                self._history.on_refusal(self._client.name, error.code.name)
                await asyncio.sleep(BACKOFF_S)
            await asyncio.sleep(self._rng.uniform(0.2, 3))

    async def _delete(self) -> None:
        names = [topic for topic in self._image().topics_by_id.values() if topic.name not in INTERNAL_TOPICS]
        if not names:
            return
        topic = self._rng.choice(names)
        partition = self._rng.randrange(len(topic.partitions))
        key = topic.topic_id, partition
        committed = self._checker.committed_end(key)
        asked = self._checker.asked(key)
        if committed <= asked:
            return
        offset = self._rng.randint(asked + 1, committed)
        connection, leadership = await self._client.leader(topic.name, partition)
        if self._client.topic_ids.get(topic.name) != topic.topic_id:
            return
        self._checker.on_asked(key, offset)
        request = requests.delete_records(topic.name, partition, offset, TIMEOUT_S / 2)
        answer = await connection.call(ApiKey.DELETE_RECORDS, requests.DELETE_RECORDS_VERSION, request, TIMEOUT_S)
        part = answer.topics[0].partitions[0]
        if part.error_code is not ErrorCode.none:
            self._client.forget_leader(topic.name, partition)
            raise RefusedError(part.error_code)
        name = TopicPartition(topic.name, partition)
        durable_start = self._find_durable_start(leadership.node_id, name, leadership.leader_epoch)
        self._checker.on_deleted(f"{name}", offset, part.low_watermark, durable_start)
        groups = read_hold_groups(topic.configs)
        if groups and self._checker.knows_start(key):
            self.on_held_deleted(name, groups, max(asked, self._checker.retained_end(key)), offset)
        self._history.on_done(self._client.name, "records deleted", f"{topic.name}-{partition} up to {offset}")
