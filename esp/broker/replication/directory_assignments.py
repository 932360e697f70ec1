"""Reports to the controller the log directory of each replica of this node, where the metadata says otherwise (KIP-858).

The controller needs these reports to know the partitions that lose their leader when a directory fails.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from kio.schema.assign_replicas_to_dirs.v0.request import (
    AssignReplicasToDirsRequest,
    DirectoryData,
    PartitionData,
    TopicData,
)
from kio.schema.assign_replicas_to_dirs.v0.response import AssignReplicasToDirsResponse
from kio.schema.types import BrokerId
from kio.static.primitive import i32, i64

from esp.broker.controller_client.channel import ControllerCalls
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.replication.isr_updates import CALL_TIMEOUT_MS
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, DirectoryId, NodeId, TopicId
from esp.ports.env import Env
from esp.protocol.registry import ApiKey

log = logging.getLogger(__name__)

RETRY_US: Final = 1_000_000
PARTITIONS_MAX: Final = 2_250
"""The most partitions of one request, as in Kafka: each costs the controller a record, and a batch of records has a limit."""

_SETTLED: Final = frozenset(
    (ErrorCode.none, ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower)
)
"""Answers upon which nothing has to be sent again: done, or the replica is none any more."""


class DirectoryAssignments:
    """Collects replicas, and tells of them in one request at a time.

    Args:
        env: the outside.
        node_id: this node.
        channel: the channel to the controller.
        broker_epoch: this node's, as registered last.
        tasks: where the work lives.
    """

    def __init__(
        self,
        env: Env,
        node_id: NodeId,
        channel: ControllerCalls,
        broker_epoch: Callable[[], BrokerEpoch],
        tasks: Tasks,
    ) -> None:
        self._env = env
        self._node_id = node_id
        self._channel = channel
        self._broker_epoch = broker_epoch
        self._wanted: dict[HostedPartition, DirectoryId] = {}
        self._something = asyncio.Event()
        self._closed = False
        tasks.start(self._send_forever(), name="assignments to directories")

    def tell(self, hosted: HostedPartition, directory: DirectoryId) -> None:
        """Report that the replica is in that directory, whatever the metadata says."""
        self._wanted[hosted] = directory
        self._something.set()

    def withdraw(self, hosted: HostedPartition) -> None:
        """Report nothing of a replica any more: the metadata is right by now, or the replica is gone."""
        self._wanted.pop(hosted, None)

    def close(self) -> None:
        """Send nothing more."""
        self._closed = True
        self._something.set()

    async def _send_forever(self) -> None:
        while not self._closed:
            await self._something.wait()
            self._something.clear()
            while self._wanted and not self._closed:
                wanted = dict(islice(self._wanted.items(), PARTITIONS_MAX))
                for hosted in await self._send(wanted):
                    if self._wanted.get(hosted) == wanted[hosted]:
                        del self._wanted[hosted]
                if self._wanted:
                    await self._env.clock.sleep_us(RETRY_US)

    async def _send(self, wanted: Mapping[HostedPartition, DirectoryId]) -> list[HostedPartition]:
        """Send one request; return the partitions whose directory the controller knows now."""
        by_key = {hosted.key: hosted for hosted in wanted}
        places = {(hosted.topic_id, hosted.name.partition): directory for hosted, directory in wanted.items()}
        settled = await assign(self._channel, self._node_id, self._broker_epoch(), places)
        return [by_key[topic_id.bytes, number] for topic_id, number in settled]


async def assign(
    channel: ControllerCalls,
    node_id: NodeId,
    broker_epoch: BrokerEpoch,
    places: Mapping[tuple[TopicId, int], DirectoryId],
) -> list[tuple[TopicId, int]]:
    """Report the directories of replicas, by topic and partition, in one request; return the replicas that the controller knows of now."""
    directories: dict[DirectoryId, dict[TopicId, list[int]]] = {}
    for (topic_id, number), directory in places.items():
        directories.setdefault(directory, {}).setdefault(topic_id, []).append(number)
    request = AssignReplicasToDirsRequest(
        broker_id=BrokerId(node_id),
        broker_epoch=i64(broker_epoch),
        directories=tuple(
            DirectoryData(
                id_=directory,
                topics=tuple(
                    TopicData(
                        topic_id=topic_id,
                        partitions=tuple(PartitionData(partition_index=i32(number)) for number in numbers),
                    )
                    for topic_id, numbers in topics.items()
                ),
            )
            for directory, topics in directories.items()
        ),
    )
    try:
        answer: AssignReplicasToDirsResponse = await channel.call(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS, request, timeout_ms=CALL_TIMEOUT_MS
        )
    except ApiError as error:
        log.info("directory assignments could not be sent to the controller: %s", error)
        return []
    if answer.error_code is not ErrorCode.none:
        log.warning("the controller refused assignments to directories: %s", answer.error_code.name)
        return []
    return [
        key
        for told in answer.directories
        for topic in told.topics
        if topic.topic_id is not None
        for partition in topic.partitions
        if partition.error_code in _SETTLED
        and (key := (TopicId(topic.topic_id), int(partition.partition_index))) in places
    ]
