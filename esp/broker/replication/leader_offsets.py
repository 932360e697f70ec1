"""A follower's request for the start and the end of its leader's log (TRUNC-5)."""

import datetime as dt
from typing import Final

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v11.response import ListOffsetsResponse
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from esp.broker.connections.peer import Peer
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.protocol.registry import ApiKey

_LATEST: Final = -1
_EARLIEST_LOCAL: Final = -4
_READ_UNCOMMITTED: Final = 0


async def ask_leader_offsets(
    peer: Peer, node_id: NodeId, name: TopicPartition, leader_epoch: int, timeout_ms: int
) -> tuple[int, int]:
    """The start and the end of the log of the leader of ``leader_epoch``.

    Args:
        peer: the leader.
        node_id: this node: a replica is told of the log end, where a consumer is told of the high watermark.
        name: the partition's name.
        leader_epoch: in which this node follows.
        timeout_ms: the time limit of each of the two answers.

    Raises:
        ApiError: the leader refuses.
        PeerUnavailableError: there is no answer.
    """

    async def ask(timestamp: int) -> int:
        request = ListOffsetsRequest(
            replica_id=BrokerId(node_id),
            isolation_level=i8(_READ_UNCOMMITTED),
            topics=(
                ListOffsetsTopic(
                    name=TopicName(name.topic),
                    partitions=(
                        ListOffsetsPartition(
                            partition_index=i32(name.partition),
                            current_leader_epoch=i32(leader_epoch),
                            timestamp=i64(timestamp),
                        ),
                    ),
                ),
            ),
            timeout=i32Timedelta.parse(dt.timedelta(milliseconds=timeout_ms)),
        )
        answer: ListOffsetsResponse = await peer.call(ApiKey.LIST_OFFSETS, request, timeout_ms=timeout_ms)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code is not ErrorCode.none:
                    raise ApiError(partition.error_code)
                return int(partition.offset)
        raise ApiError(ErrorCode.unknown_server_error, f"the response of {peer.address} does not contain {name}")

    return await ask(_EARLIEST_LOCAL), await ask(_LATEST)
