"""What a member remembers in a role, and forgets with it. The leader's is :mod:`esp.raft.leader_state`."""

from dataclasses import dataclass, field
from typing import ClassVar

from esp.model.ids import NodeId
from esp.raft.messages import EndQuorumEpochRequest, FetchRequest, FetchSnapshotRequest, UpdateVoterRequest, VoteRequest
from esp.raft.roles import Role
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterKey


@dataclass(slots=True, kw_only=True)
class Unattached:
    """No leader is followed."""

    role: ClassVar[Role] = Role.UNATTACHED
    deadline_us: int
    """When a voter asks for an election."""
    poll_at_us: int
    """When an observer asks the next member for the leader."""
    in_flight: FetchRequest | None = None
    failures: int = 0
    """How many members in a row knew no leader."""


@dataclass(slots=True)
class Ballot:
    """What one voter was asked."""

    request: VoteRequest | None = None
    """In flight."""
    retry_at_us: int = 0
    """When it is asked (again)."""
    failures: int = 0


@dataclass(slots=True, kw_only=True)
class Election:
    """A round of votes; ``role`` says whether they are asked for in earnest."""

    role: Role
    deadline_us: int
    """When the round is given up."""
    ballots: dict[VoterKey, Ballot]
    """Voters that have not answered yet."""
    granted: set[VoterKey]
    rejected: set[VoterKey] = field(default_factory=set)
    """Those who refused, and those whose process is gone."""
    may_return: bool
    """Whether the leader of the epoch may be alive, so that losing a pre-vote means to follow it again."""


@dataclass(slots=True)
class SnapshotFetch:
    """A snapshot that is being fetched: how many bytes are there."""

    snapshot_id: SnapshotId
    position: int = 0


@dataclass(slots=True, kw_only=True)
class Follower:
    """The leader is fetched from."""

    role: ClassVar[Role] = Role.FOLLOWER
    deadline_us: int
    """When the leader counts as lost."""
    has_fetched: bool = False
    """Whether the leader has answered in this epoch: then it is alive, and no pre-vote is granted against it (RAFT-6)."""
    is_leader_gone: bool = False
    """Whether the leader is known to lead no more: it said so, or its process is gone."""
    in_flight: FetchRequest | FetchSnapshotRequest | None = None
    retry_at_us: int = 0
    snapshot: SnapshotFetch | None = None
    update: UpdateVoterRequest | None = None
    update_at_us: int = 0
    """When the leader is told the endpoints of this node, if they are not in the voters' record."""


@dataclass(slots=True)
class Farewell:
    """One voter that is told of the resignation."""

    request: EndQuorumEpochRequest | None = None
    retry_at_us: int = 0


@dataclass(slots=True, kw_only=True)
class Resigned:
    """The epoch was led by this node and is over."""

    role: ClassVar[Role] = Role.RESIGNED
    deadline_us: int
    """When it asks for an election itself, nobody else having won one."""
    farewells: dict[NodeId, Farewell] = field(default_factory=dict)
    """Voters that have not confirmed yet."""
    preferred: tuple[VoterKey, ...] = ()
