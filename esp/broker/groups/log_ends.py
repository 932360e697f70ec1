"""The ends of partitions as consumers see them, and their starts, wherever their leaders are: for the lags and offsets of share groups, and
for holds."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, Protocol

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v11.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.connections.broker_peers import BrokerPeers
from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.replication.host import ReplicaHost
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.protocol.registry import ApiKey

_TIMEOUT_MS: Final = 5_000
"""Well below the patience of an administrator's client, which is told the rest."""

_LATEST: Final = -1
_EARLIEST: Final = -2
_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0


class Parts(Protocol):
    """The parts of a node that are needed; :class:`esp.broker.services.Services` has them."""

    @property
    def node_id(self) -> NodeId:
        """This node."""

    @property
    def metadata(self) -> MetadataCache:
        """The leaders, as clients are told."""

    @property
    def replicas(self) -> ReplicaHost:
        """The replicas here."""

    @property
    def peers(self) -> BrokerPeers:
        """The other brokers."""


async def find_log_ends(node: Parts, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset after the last committed record of each partition; those whose leader does not tell it are left out."""
    return await _find(node, partitions, _LATEST)


async def find_log_starts(node: Parts, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """The first offset of each partition; those whose leader does not tell it are left out."""
    return await _find(node, partitions, _EARLIEST)


async def _find(node: Parts, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    elsewhere: dict[NodeId, list[TopicPartition]] = {}
    metadata = node.metadata
    for partition in dict.fromkeys(partitions):
        if not metadata.has_partition(partition.topic, partition.partition):
            continue
        state = metadata.image.topics_by_name[partition.topic].partitions[partition.partition]
        if state.leader == node.node_id:
            found |= _find_here(node, partition, timestamp)
        elif state.leader in metadata.alive:
            elsewhere.setdefault(state.leader, []).append(partition)
    for told in await asyncio.gather(*(_ask(node, leader, asked, timestamp) for leader, asked in elsewhere.items())):
        found |= told
    return found


def _find_here(node: Parts, partition: TopicPartition, timestamp: int) -> dict[TopicPartition, int]:
    hosted = node.replicas.find(partition.topic, partition.partition)
    if hosted is None or hosted.leader is None:
        return {}
    if timestamp == _EARLIEST:
        return {partition: hosted.log.log_start_offset}
    return {partition: hosted.log.high_watermark} if hosted.leader.is_high_watermark_current else {}


async def _ask(
    node: Parts, leader: NodeId, partitions: Sequence[TopicPartition], timestamp: int
) -> dict[TopicPartition, int]:
    topics: dict[str, list[int]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    request = ListOffsetsRequest(
        replica_id=BrokerId(_CONSUMER),
        isolation_level=i8(_READ_UNCOMMITTED),
        topics=tuple(
            ListOffsetsTopic(
                name=TopicName(name),
                partitions=tuple(
                    ListOffsetsPartition(partition_index=i32(number), timestamp=i64(timestamp)) for number in numbers
                ),
            )
            for name, numbers in topics.items()
        ),
        timeout=i32Timedelta.parse(timedelta(milliseconds=_TIMEOUT_MS)),
    )
    try:
        peer = node.peers.find(leader)
        answer: ListOffsetsResponse = await peer.call(ApiKey.LIST_OFFSETS, request, timeout_ms=_TIMEOUT_MS)
    except PeerUnavailableError:
        return {}
    return {
        TopicPartition(str(topic.name), int(partition.partition_index)): int(partition.offset)
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code is ErrorCode.none
    }
