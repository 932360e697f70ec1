"""The requests of simulated members of the classic protocol in groups that move between the protocols, and what they tell one another."""

import datetime as dt
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kio.schema.heartbeat.v4.request import HeartbeatRequest
from kio.schema.join_group.v7.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.leave_group.v4.request import LeaveGroupRequest, MemberIdentity
from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment
from kio.schema.types import GroupId
from kio.static.primitive import i32, i32Timedelta

from esp.groups.group import PROTOCOL_TYPE
from esp.model.ids import TopicPartition
from esp.simulation.workload.consumer_group_requests import Sender

HEARTBEAT_VERSION: Final = 4
JOIN_VERSION: Final = 7
LEAVE_VERSION: Final = 4
SYNC_VERSION: Final = 5

_SUBSCRIPTION_VERSION: Final = b"\x00\x01"
"""The first with the partitions that a member has."""

_NO_USER_DATA: Final = b"\xff\xff\xff\xff"
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


def join(sender: Sender, protocol: str, metadata: bytes, *, session_s: float, rebalance_s: float) -> JoinGroupRequest:
    """Take part in the next generation."""
    return JoinGroupRequest(
        group_id=GroupId(sender.group_id),
        session_timeout=_duration(session_s),
        rebalance_timeout=_duration(rebalance_s),
        member_id=sender.member_id or "",
        group_instance_id=sender.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=(JoinGroupRequestProtocol(name=protocol, metadata=metadata),),
    )


def sync(sender: Sender, protocol: str, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
    """Ask for the assignment; the leader brings those of all members."""
    return SyncGroupRequest(
        group_id=GroupId(sender.group_id),
        generation_id=i32(sender.epoch),
        member_id=sender.member_id or "",
        group_instance_id=sender.instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=tuple(
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in assignments.items()
        ),
    )


def heartbeat(sender: Sender) -> HeartbeatRequest:
    """Say that the member is there."""
    return HeartbeatRequest(
        group_id=GroupId(sender.group_id),
        generation_id=i32(sender.epoch),
        member_id=sender.member_id or "",
        group_instance_id=sender.instance_id,
    )


def leave(sender: Sender) -> LeaveGroupRequest:
    """Go for good."""
    member = MemberIdentity(member_id=sender.member_id or "", group_instance_id=sender.instance_id)
    return LeaveGroupRequest(group_id=GroupId(sender.group_id), members=(member,))


def subscription(topics: Iterable[str], owned: Collection[TopicPartition]) -> bytes:
    """The metadata of a member."""
    names = tuple(topics)
    return b"".join(
        (
            _SUBSCRIPTION_VERSION,
            _INT.pack(len(names)),
            *map(_string, names),
            _NO_USER_DATA,
            _partitions(owned),
        )
    )


def assignment(partitions: Collection[TopicPartition]) -> bytes:
    """The partitions that a leader gives a member."""
    return b"".join((_SUBSCRIPTION_VERSION, _partitions(partitions), _NO_USER_DATA))


def _partitions(partitions: Collection[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        topics.setdefault(topic, []).append(number)
    parts = [_INT.pack(len(topics))]
    for topic, numbers in topics.items():
        parts += (_string(topic), _INT.pack(len(numbers)), *map(_INT.pack, numbers))
    return b"".join(parts)


def _string(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _duration(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(seconds=seconds))
