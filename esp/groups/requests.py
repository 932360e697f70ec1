"""The requests to a coordinator, free of the wire's versions: the shell sets fields that a version lacks to the defaults here."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.groups.effects import Transaction
from esp.model.ids import TopicPartition
from esp.schemas.consumer_group_records import TopicIdPartition

NO_GENERATION: Final = -1
"""The generation in requests of clients that are no members of a group (a "simple consumer", or an administrator)."""

NO_RETENTION: Final = -1
"""``OffsetCommit.retention_ms`` of a commit that goes by ``offsets.retention.minutes``."""

NO_LEADER_EPOCH: Final = -1
"""The leader epoch of a commit that names none."""


class Protocol(NamedTuple):
    """A way to assign partitions that a member knows: its name, and the member's metadata for the group's leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroup:
    """A client wants to be a member of the group's next generation."""

    group_id: str
    member_id: str
    """Empty at first; the answer brings it."""
    group_instance_id: str | None = None
    """The name of a static member (KIP-345)."""
    client_id: str = ""
    client_host: str = ""
    """As Kafka shows it: ``/127.0.0.1``."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """In version 0: the session timeout."""
    protocol_type: str
    protocols: tuple[Protocol, ...]
    """In the order in which the member prefers them."""
    requires_known_member_id: bool = False
    """True if a dynamic member first only gets an id and must join again with it (KIP-394): from version 4 on."""
    supports_skipping_assignment: bool = False
    """True if a static leader that came back can be asked to assign nothing (KIP-814): from version 9 on."""
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroup:
    """A member of the new generation wants its assignment; the leader brings the assignments of all."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None
    protocol_type: str | None = None
    """None where the version has none (before 5): then it is not checked."""
    protocol_name: str | None = None
    """See ``protocol_type``."""
    assignments: dict[str, bytes] = field(default_factory=dict)
    """By member id; empty if not from the leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A member is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None


JOIN_EPOCH: Final = 0
"""The member epoch of a client that joins a consumer group."""

LEAVE_EPOCH: Final = -1
"""The member epoch of a member that leaves."""

LEAVE_STATIC_EPOCH: Final = -2
"""The member epoch of a static member that will be back: its partitions stay its own."""

UNCHANGED_TIMEOUT: Final = -1
"""``ConsumerGroupHeartbeat.rebalance_timeout_ms`` of a member that has told it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupHeartbeat:
    """A member of a consumer group is alive (KIP-848), or joins, or leaves. What is None it has told before."""

    group_id: str
    member_id: str
    """Made by the client. Empty in version 0: the answer brings one then."""
    makes_member_id: bool = True
    """True if an empty member id is an error: from version 1 on."""
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = UNCHANGED_TIMEOUT
    topic_names: tuple[str, ...] | None = None
    topic_regex: str | None = None
    """Empty for a member that does without one from now on."""
    assignor: str | None = None
    owned: frozenset[TopicIdPartition] | None = None
    """The partitions that it has."""
    client_id: str = ""
    client_host: str = ""
    may_describe: Callable[[str], bool] = field(default=lambda _topic: True, compare=False)
    """Tells whether the client may know of a topic that its expression matches."""


class LeavingMember(NamedTuple):
    """A member that goes: by its id, or by its instance's id and no or the right member id."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroup:
    """Members leave, or an administrator sends them away. Before version 3 it is one."""

    group_id: str
    members: tuple[LeavingMember, ...]


class CommittedOffset(NamedTuple):
    """The offset at which one partition is to be read on."""

    partition: TopicPartition
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    """Kafka takes an absent text for an empty one."""
    topic_id: uuid.UUID | None = None
    """The present topic of the name; None where its id is not recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommit:
    """Offsets are to be remembered. Partitions that do not exist are the shell's to refuse; they do not stand here."""

    group_id: str
    generation_id: int = NO_GENERATION
    """``GenerationIdOrMemberEpoch``; version 0 has none."""
    member_id: str = ""
    group_instance_id: str | None = None
    retention_ms: int = NO_RETENTION
    """Versions 2 to 4: the time for which these offsets stay, whatever the settings."""
    knows_member_epochs: bool = False
    """True from version 9 on: members of consumer groups may commit, and a generation of an unknown group is refused with
    GROUP_ID_NOT_FOUND and not ILLEGAL_GENERATION."""
    offsets: tuple[CommittedOffset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnOffsetCommit:
    """Offsets are to be remembered if a transaction commits. Its coordinator has confirmed it, for the partition of the group."""

    group_id: str
    transaction: Transaction
    generation_id: int = NO_GENERATION
    """Versions before 3 have none, nor the two that follow."""
    member_id: str = ""
    group_instance_id: str | None = None
    offsets: tuple[CommittedOffset, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetch:
    """Committed offsets are asked for."""

    group_id: str
    member_id: str | None = None
    """None for a client that is no member, and before version 9."""
    member_epoch: int = NO_GENERATION
    partitions: tuple[TopicPartition, ...] | None
    """None for all that the group has."""
    require_stable: bool = False
    """True if partitions for which an open transaction has committed an offset are to be refused (KIP-447)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDelete:
    """Committed offsets are to be forgotten (KIP-496). Partitions that do not exist are the shell's to refuse."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroups:
    """The groups that there are; empty filters let all pass. Names are compared without regard to case."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
