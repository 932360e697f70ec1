"""The requests of clients that ask where a partition's log begins and ends, and that read from any replica."""

import datetime as dt
from typing import Final

from kio.schema.fetch.v17.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64

from esp.model.ids import TopicId

LIST_OFFSETS_VERSION: Final = 11
OFFSET_FOR_LEADER_EPOCH_VERSION: Final = 4
FETCH_VERSION: Final = 17

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4

CONSUMER: Final = BrokerId(-1)
"""The replica id of a client that is no replica."""


def list_offsets(
    topic: str, partition: int, timestamp: int, *, leader_epoch: int, isolation: int
) -> ListOffsetsRequest:
    """Ask for an offset by what it means, or by time."""
    wanted = ListOffsetsPartition(
        partition_index=i32(partition), current_leader_epoch=i32(leader_epoch), timestamp=i64(timestamp)
    )
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=i8(isolation),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(wanted,)),),
        timeout=i32Timedelta.parse(dt.timedelta(seconds=5)),
    )


def offset_for_leader_epoch(
    topic: str, partition: int, wanted: int, *, leader_epoch: int
) -> OffsetForLeaderEpochRequest:
    """Ask where a leader epoch ends."""
    part = OffsetForLeaderPartition(
        partition=i32(partition), current_leader_epoch=i32(leader_epoch), leader_epoch=i32(wanted)
    )
    return OffsetForLeaderEpochRequest(
        replica_id=CONSUMER, topics=(OffsetForLeaderTopic(topic=TopicName(topic), partitions=(part,)),)
    )


def fetch_anywhere(
    topic_id: TopicId,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    last_epoch: int,
    rack: str,
    isolation: int,
    max_bytes: int,
    wait_s: float,
) -> FetchRequest:
    """Read one partition, without a session, as a consumer in a rack that knows the epoch of the record before (KIP-320, KIP-392)."""
    wanted = FetchPartition(
        partition=i32(partition),
        current_leader_epoch=i32(leader_epoch),
        fetch_offset=i64(offset),
        last_fetched_epoch=i32(last_epoch),
        partition_max_bytes=i32(max_bytes),
    )
    return FetchRequest(
        max_wait=i32Timedelta.parse(dt.timedelta(seconds=wait_s)),
        min_bytes=i32(1),
        isolation_level=i8(isolation),
        session_id=i32(0),
        session_epoch=i32(-1),
        topics=(FetchTopic(topic_id=topic_id, partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id=rack,
    )
