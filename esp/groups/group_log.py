"""Groups and offsets as records of the log, there and back."""

from collections.abc import Mapping

from esp.groups.group import Group, GroupState, Member
from esp.groups.requests import Protocol
from esp.groups.transactional_offsets import OffsetChange
from esp.records.builder import NewRecord
from esp.schemas.consumer_group_record_codec import encode_consumer_group_key, encode_consumer_group_value
from esp.schemas.consumer_group_records import ConsumerGroupRecord
from esp.schemas.group_record_codec import (
    encode_group_metadata_key,
    encode_group_metadata_value,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from esp.schemas.group_records import (
    NO_TIMEOUT,
    NO_TIMESTAMP,
    GroupMember,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
)
from esp.schemas.share_group_record_codec import encode_share_group_key, encode_share_group_value
from esp.schemas.share_group_records import ShareGroupRecord


def new_group_record(group: Group) -> NewRecord:
    """The first record of a group, even if it has changed since it was made."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp_ms=_since(group),
        members=(),
    )
    return NewRecord(encode_group_metadata_value(value), encode_group_metadata_key(GroupMetadataKey(group.group_id)))


def generation_record(group: Group, assignments: Mapping[str, bytes], *, is_over: bool = False) -> NewRecord:
    """The group's generation, with these assignments by member id.

    Args:
        group: the group.
        assignments: by member id.
        is_over: whether its members are to join again, also if another coordinator reads this: then it names no leader.
    """
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=None if is_over else group.leader_id,
        current_state_timestamp_ms=_since(group),
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group
        ),
    )
    return NewRecord(encode_group_metadata_value(value), encode_group_metadata_key(GroupMetadataKey(group.group_id)))


def deleted_group_record(group: Group) -> NewRecord:
    """A tombstone: the group is no more."""
    return NewRecord(None, encode_group_metadata_key(GroupMetadataKey(group.group_id)))


def offset_record(change: OffsetChange) -> NewRecord:
    """A committed offset, or the tombstone of one."""
    key = OffsetCommitKey(change.group_id, change.partition.topic, change.partition.partition)
    value = None if change.value is None else encode_offset_commit_value(change.value)
    return NewRecord(value, encode_offset_commit_key(key))


def consumer_group_record(record: ConsumerGroupRecord) -> NewRecord:
    """A part of a consumer group, or the tombstone of one."""
    value = None if record.value is None else encode_consumer_group_value(record.value)
    return NewRecord(value, encode_consumer_group_key(record.key))


def share_group_record(record: ShareGroupRecord) -> NewRecord:
    """A part of a share group, or the tombstone of one."""
    value = None if record.value is None else encode_share_group_value(record.value)
    return NewRecord(value, encode_share_group_key(record.key))


def load_group(group_id: str, value: GroupMetadataValue) -> Group:
    """The group in a record, as it was when the record was written."""
    since = value.current_state_timestamp_ms
    group = Group(group_id, None if since == NO_TIMESTAMP else since)
    for loaded in value.members:
        group.add(_load_member(loaded, value.protocol), value.protocol_type)
    group.state = group.previous_state = GroupState.STABLE if len(group) else GroupState.EMPTY
    group.generation_id = value.generation
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    if value.leader is not None and value.leader in group:
        group.leader_id = value.leader
    group.is_over = value.leader is None
    group.read_subscriptions()
    return group


def _load_member(loaded: GroupMember, protocol: str | None) -> Member:
    timeout_ms = loaded.rebalance_timeout_ms
    return Member(
        member_id=loaded.member_id,
        group_instance_id=loaded.group_instance_id,
        client_id=loaded.client_id,
        client_host=loaded.client_host,
        rebalance_timeout_ms=loaded.session_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        session_timeout_ms=loaded.session_timeout_ms,
        protocols=(Protocol(protocol or "", loaded.subscription),),
        assignment=loaded.assignment,
    )


def _since(group: Group) -> int:
    return NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms
