"""The records in the log of the group coordinator (``__consumer_offsets``): committed offsets, and groups of the classic protocol.

One shape for all versions of a record: fields that an old version lacks have their defaults. The bytes are in
:mod:`esp.schemas.group_record_codec`.
"""

import uuid
from typing import Final, NamedTuple

NO_TIMESTAMP: Final = -1
"""A time that a version does not have, or that was not given."""

NO_TIMEOUT: Final = -1
"""``GroupMember.rebalance_timeout_ms`` of version 0, which has none: the session timeout stands for it."""


class OffsetCommitKey(NamedTuple):
    """The group and the partition of a committed offset."""

    group: str
    topic: str
    partition: int


class OffsetCommitValue(NamedTuple):
    """A committed offset."""

    offset: int
    leader_epoch: int
    """-1 if unknown: versions below 3 have none."""
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_TIMESTAMP
    """The time at which it expires, whatever the settings; in version 1 only, for clients that asked for a retention."""
    topic_id: uuid.UUID | None = None
    """From version 4 on."""


class GroupMetadataKey(NamedTuple):
    """The group that a value belongs to."""

    group: str


class GroupMember(NamedTuple):
    """A member of a generation."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the group leader, in the protocol of the generation."""
    assignment: bytes


class GroupMetadataValue(NamedTuple):
    """A generation of a group."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    """When the group came to its state; NO_TIMESTAMP before version 2."""
    members: tuple[GroupMember, ...]


class OffsetCommitRecord(NamedTuple):
    """An offset was committed; without a value it is forgotten."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupMetadataRecord(NamedTuple):
    """A group has another generation; without a value it is deleted."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None


GroupRecord = OffsetCommitRecord | GroupMetadataRecord
