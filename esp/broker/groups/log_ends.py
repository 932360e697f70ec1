"""The ends of partitions as consumers see them, wherever their leaders are: for the lags and offsets of share groups."""

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
    ends: dict[TopicPartition, int] = {}
    elsewhere: dict[NodeId, list[TopicPartition]] = {}
    metadata = node.metadata
    for partition in dict.fromkeys(partitions):
        if not metadata.has_partition(partition.topic, partition.partition):
            continue
        state = metadata.image.topics_by_name[partition.topic].partitions[partition.partition]
        if state.leader == node.node_id:
            ends |= _find_here(node, partition)
        elif state.leader in metadata.alive:
            elsewhere.setdefault(state.leader, []).append(partition)
    for found in await asyncio.gather(*(_ask(node, leader, asked) for leader, asked in elsewhere.items())):
        ends |= found
    return ends


def _find_here(node: Parts, partition: TopicPartition) -> dict[TopicPartition, int]:
    hosted = node.replicas.find(partition.topic, partition.partition)
    if hosted is None or hosted.leader is None or not hosted.leader.is_high_watermark_current:
        return {}
    return {partition: hosted.log.high_watermark}


async def _ask(node: Parts, leader: NodeId, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
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
                    ListOffsetsPartition(partition_index=i32(number), timestamp=i64(_LATEST)) for number in numbers
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
