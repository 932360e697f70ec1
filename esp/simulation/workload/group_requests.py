"""The requests of simulated group members, each in one line for its sender, and what members tell one another in them."""

import datetime as dt
import struct
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.find_coordinator.v3 import request as find_up_to_3
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v7.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v2 import request as leave_up_to_2
from kio.schema.leave_group.v4.request import LeaveGroupRequest, MemberIdentity
from kio.schema.offset_commit.v4 import request as commit_up_to_4
from kio.schema.offset_commit.v9.request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kio.schema.offset_delete.v0.request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kio.schema.offset_fetch.v7 import request as fetch_up_to_7
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32, i32Timedelta, i64, i64Timedelta

from esp.groups.group import PROTOCOL_TYPE
from esp.model.ids import TopicPartition

LAST_SINGLE_FIND: Final = 3
"""The last version of FindCoordinator with one group in a request, and in its answer."""

LAST_SINGLE_LEAVE: Final = 2
"""The last version of LeaveGroup with one member in a request, by its id alone."""

RETAINED_COMMIT_VERSION: Final = 4
"""The last version of OffsetCommit in which a client asks for a retention of its own."""

LAST_SINGLE_FETCH: Final = 7
"""The last version of OffsetFetch with one group in a request, and in its answer."""

OWN_RETENTION_S: Final = -0.001
"""The retention for which a client asks that has no wish: that of the brokers."""

PROTOCOL: Final = "range"

OFFSET_DELETE_VERSION: Final = 0
DELETE_GROUPS_VERSION: Final = 2

_VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


class Identity(NamedTuple):
    """The sender: a member of a group, or with the defaults a client that is no member yet."""

    group_id: str
    instance_id: str | None = None
    member_id: str = ""
    generation_id: int = -1


class Assignment(NamedTuple):
    """The assignment that a leader gives a member."""

    partitions: tuple[TopicPartition, ...]
    plan: str
    """The member that made it, and the generation for which it did."""
    member_id: str
    """The member that it is for, by the id that the leader was told."""


def find_coordinator(group_id: str, version: int) -> FindCoordinatorRequest | find_up_to_3.FindCoordinatorRequest:
    """Ask for the coordinator of a group."""
    if version <= LAST_SINGLE_FIND:
        return find_up_to_3.FindCoordinatorRequest(key=group_id, key_type=i8(0))
    return FindCoordinatorRequest(key_type=i8(0), coordinator_keys=(group_id,))


def join(identity: Identity, topics: Iterable[str], *, session_s: float, rebalance_s: float) -> JoinGroupRequest:
    """Take part in the next generation."""
    return JoinGroupRequest(
        group_id=GroupId(identity.group_id),
        session_timeout=_duration(session_s),
        rebalance_timeout=_duration(rebalance_s),
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(JoinGroupRequestProtocol(name=PROTOCOL, metadata=_subscription(topics)),),
    )


def sync(identity: Identity, assignments: Mapping[str, Assignment]) -> SyncGroupRequest:
    """Ask for the assignment; the leader brings those of all members."""
    return SyncGroupRequest(
        group_id=GroupId(identity.group_id),
        generation_id=i32(identity.generation_id),
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(assignment))
            for member_id, assignment in assignments.items()
        ),
    )


def heartbeat(identity: Identity) -> HeartbeatRequest:
    """Say that the member is there."""
    return HeartbeatRequest(
        group_id=GroupId(identity.group_id),
        generation_id=i32(identity.generation_id),
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
    )


def leave(identity: Identity, version: int) -> LeaveGroupRequest | leave_up_to_2.LeaveGroupRequest:
    """Take part no more."""
    if version <= LAST_SINGLE_LEAVE:
        return leave_up_to_2.LeaveGroupRequest(group_id=GroupId(identity.group_id), member_id=identity.member_id)
    member = MemberIdentity(member_id=identity.member_id, group_instance_id=identity.instance_id)
    return LeaveGroupRequest(group_id=GroupId(identity.group_id), members=(member,))


def commit(
    identity: Identity, offsets: Mapping[TopicPartition, int], metadata: str, version: int
) -> OffsetCommitRequest | commit_up_to_4.OffsetCommitRequest:
    """Commit offsets, each with the same text beside it."""
    if version <= RETAINED_COMMIT_VERSION:
        return commit_retained(identity, offsets, metadata, OWN_RETENTION_S)
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=i32(partition.partition), committed_offset=i64(offset), committed_metadata=metadata
            )
        )
    return OffsetCommitRequest(
        group_id=GroupId(identity.group_id),
        generation_id_or_member_epoch=i32(identity.generation_id),
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=tuple(
            OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(parts)) for name, parts in topics.items()
        ),
    )


def delete_offsets(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Forget the offsets of partitions that no member reads."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(
            OffsetDeleteRequestPartition(partition_index=i32(partition.partition))
        )
    return OffsetDeleteRequest(
        group_id=GroupId(group_id),
        topics=tuple(
            OffsetDeleteRequestTopic(name=TopicName(name), partitions=tuple(parts)) for name, parts in topics.items()
        ),
    )


def delete_group(group_id: str) -> DeleteGroupsRequest:
    """Forget a group without members, with its offsets."""
    return DeleteGroupsRequest(groups_names=(GroupId(group_id),))


def commit_retained(
    identity: Identity, offsets: Mapping[TopicPartition, int], metadata: str, retention_s: float
) -> commit_up_to_4.OffsetCommitRequest:
    """Commit offsets as an old client does, with the retention for which it asks."""
    topics: dict[str, list[commit_up_to_4.OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        topics.setdefault(partition.topic, []).append(
            commit_up_to_4.OffsetCommitRequestPartition(
                partition_index=i32(partition.partition), committed_offset=i64(offset), committed_metadata=metadata
            )
        )
    return commit_up_to_4.OffsetCommitRequest(
        group_id=GroupId(identity.group_id),
        generation_id_or_member_epoch=i32(identity.generation_id),
        member_id=identity.member_id,
        retention_time=i64Timedelta.parse(dt.timedelta(seconds=retention_s)),
        topics=tuple(
            commit_up_to_4.OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(parts))
            for name, parts in topics.items()
        ),
    )


def fetch_offsets(
    group_id: str, partitions: Iterable[TopicPartition], version: int
) -> OffsetFetchRequest | fetch_up_to_7.OffsetFetchRequest:
    """Ask what is committed."""
    topics: dict[str, list[i32]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(i32(partition.partition))
    if version <= LAST_SINGLE_FETCH:
        return fetch_up_to_7.OffsetFetchRequest(
            group_id=GroupId(group_id),
            topics=tuple(
                fetch_up_to_7.OffsetFetchRequestTopic(name=TopicName(name), partition_indexes=tuple(numbers))
                for name, numbers in topics.items()
            ),
            require_stable=True,
        )
    group = OffsetFetchRequestGroup(
        group_id=GroupId(group_id),
        topics=tuple(
            OffsetFetchRequestTopics(name=TopicName(name), partition_indexes=tuple(numbers))
            for name, numbers in topics.items()
        ),
    )
    return OffsetFetchRequest(groups=(group,), require_stable=True)


def encode_assignment(assignment: Assignment) -> bytes:
    """``ConsumerProtocolAssignment`` version 0; its maker and its receiver stand in the user data."""
    topics: dict[str, list[int]] = {}
    for partition in assignment.partitions:
        topics.setdefault(partition.topic, []).append(partition.partition)
    parts = [_SHORT.pack(_VERSION), _INT.pack(len(topics))]
    for topic, numbers in topics.items():
        parts += (_string(topic), _INT.pack(len(numbers)), *map(_INT.pack, numbers))
    user_data = f"{assignment.plan}>{assignment.member_id}".encode()
    return b"".join((*parts, _INT.pack(len(user_data)), user_data))


def decode_assignment(data: bytes) -> Assignment:
    """The assignment that :func:`encode_assignment` made; nothing at all stands for a leader that forgot the member."""
    if not data:
        return Assignment((), "", "")
    (topic_count,) = _INT.unpack_from(data, _SHORT.size)
    position = _SHORT.size + _INT.size
    partitions = []
    for _ in range(topic_count):
        (length,) = _SHORT.unpack_from(data, position)
        position += _SHORT.size + length
        topic = data[position - length : position].decode()
        (count,) = _INT.unpack_from(data, position)
        position += _INT.size
        for _ in range(count):
            (number,) = _INT.unpack_from(data, position)
            position += _INT.size
            partitions.append(TopicPartition(topic, number))
    plan, _, member_id = data[position + _INT.size :].decode().partition(">")
    return Assignment(tuple(partitions), plan, member_id)


def _subscription(topics: Iterable[str]) -> bytes:
    names = tuple(topics)
    return b"".join((_SHORT.pack(_VERSION), _INT.pack(len(names)), *map(_string, names), _INT.pack(0)))


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _duration(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(seconds=seconds))
