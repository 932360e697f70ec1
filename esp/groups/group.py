"""A group of the classic protocol: its members, its generation and its state. It makes no decisions and answers no requests.

:class:`Member` is one of its members; :data:`TRANSITIONS` leads from one :class:`GroupState` to another. A coordinator reads one part of
the consumers' own protocol: the topics that a member is subscribed to. A subscription begins with its version and its topics in every
version (``ConsumerProtocolSubscription``), so version 0 reads them all.
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from esp.groups.deadlines import Timer
from esp.groups.requests import Protocol
from esp.groups.responses import DescribedMember, JoinedMember
from esp.model.errors import ApiError, ErrorCode

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members assign partitions of topics."""

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def read_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's metadata; None if it is no subscription."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
        if version < 0 or count < 0:
            return None
        position = _VERSION_AND_COUNT.size
        topics: set[str] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= length <= len(metadata) - position:
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)


@dataclass(slots=True, kw_only=True)
class Member:
    """A client that takes part in a group, and the requests of it that wait for an answer."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[Protocol, ...]
    """In the order in which it prefers them; each name once."""
    assignment: bytes = b""
    join_ticket: object = None
    """The ticket of the JoinGroup that waits; :class:`~esp.groups.group.Group` counts these."""
    sync_ticket: object = None
    """The ticket of the SyncGroup that waits."""
    is_new: bool = False
    """True if it waits for its first generation: it knows no member id yet, so no heartbeat can be expected of it."""
    session: Timer = field(default_factory=Timer)

    @property
    def is_static(self) -> bool:
        """True if it keeps its place when it comes back (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_joining(self) -> bool:
        """True if its JoinGroup waits for an answer."""
        return self.join_ticket is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """True if it may be silent, because it waits for an answer."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """The member's metadata for this protocol; empty if it does not know it."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The protocol that it prefers among the protocols that all members know."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def joined(self, protocol_name: str | None) -> JoinedMember:
        """The member as the leader sees it."""
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol_name))

    def described(self, protocol_name: str | None) -> DescribedMember:
        """The member as an administrator sees it: without a protocol no metadata, but its last assignment."""
        return DescribedMember(
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            metadata=b"" if protocol_name is None else self.metadata(protocol_name),
            assignment=self.assignment,
        )


def unique(protocols: tuple[Protocol, ...]) -> tuple[Protocol, ...]:
    """The protocols, of several with one name the first."""
    by_name: dict[str, Protocol] = {}
    for protocol in protocols:
        by_name.setdefault(protocol.name, protocol)
    return tuple(by_name.values())


class GroupState(Enum):
    """The state of a group; the values are the names that clients see."""

    EMPTY = "Empty"
    """It has no members; its offsets stay until they expire."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It waits for its members to join the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """The generation stands, and waits for the assignments of its leader."""
    STABLE = "Stable"
    """Each member has its assignment."""
    DEAD = "Dead"
    """It is gone: deleted, or its coordinator is another one."""


class GroupEvent(Enum):
    """The events that may change a group's state; their other consequences are described where they happen."""

    REBALANCE_NEEDED = "members joined, left or changed their metadata"
    ALL_JOINED = "all members have joined, or the time for it is over and at least one has"
    NONE_JOINED = "the time to join is over, or the last member left, and no member remains"
    ASSIGNMENT_COMMITTED = "the leader's assignments are committed in the log"
    REMOVED = "the group was deleted, or has neither members nor offsets left, or is unloaded"


TRANSITIONS: Final[Mapping[tuple[GroupState, GroupEvent], GroupState]] = MappingProxyType(
    {
        (GroupState.EMPTY, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.EMPTY, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.PREPARING_REBALANCE, GroupEvent.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
        (GroupState.PREPARING_REBALANCE, GroupEvent.NONE_JOINED): GroupState.EMPTY,
        (GroupState.PREPARING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.ASSIGNMENT_COMMITTED): GroupState.STABLE,
        (GroupState.COMPLETING_REBALANCE, GroupEvent.REMOVED): GroupState.DEAD,
        (GroupState.STABLE, GroupEvent.REBALANCE_NEEDED): GroupState.PREPARING_REBALANCE,
        (GroupState.STABLE, GroupEvent.REMOVED): GroupState.DEAD,
    }
)
"""The state that follows each state and event; an event that has no line in a state cannot happen there."""


class Group:
    """A group and its members.

    Invariants: ``leader_id`` is a member's id, or None without members; an instance's id belongs to one member; all members have a
    protocol in common, and the group's protocol type; members that wait for their generation are counted.

    Args:
        group_id: its name.
        wall_ms: the time of its last change of state; None if that is not known.
    """

    def __init__(self, group_id: str, wall_ms: int | None) -> None:
        self.group_id: Final = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.EMPTY
        self.state_since_ms = wall_ms
        self.generation_id = 0
        self.protocol_type: str | None = None
        """None for a group of nothing but offsets (a "simple" group)."""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.subscribed_topics: frozenset[str] | None = None
        """The topics to which the members of the generation are subscribed; None if they are not known."""
        self.pending_joins: Final[dict[str, Timer]] = {}
        """Ids that were given to clients which have not joined with them yet (KIP-394)."""
        self.pending_syncs: Final[set[str]] = set()
        """Members of the generation that have not asked for their assignment."""
        self.is_over = False
        """True if it was loaded with a generation that is over: its members are to join again."""
        self.has_new_member = False
        """True if a member has joined since the delay of the first rebalance began anew."""
        self.join_timer: Final = Timer()
        self.sync_timer: Final = Timer()
        self._members: Final[dict[str, Member]] = {}
        self._static: Final[dict[str, str]] = {}
        self._known_protocols: Final[Counter[str]] = Counter()
        self._joining_count = 0

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._members.values())

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._members

    def find(self, member_id: str) -> Member | None:
        """The member with this id."""
        return self._members.get(member_id)

    def find_static(self, group_instance_id: str | None) -> Member | None:
        """The member that is this instance."""
        member_id = None if group_instance_id is None else self._static.get(group_instance_id)
        return None if member_id is None else self._members[member_id]

    def require_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that a request names.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if the instance is another member by now (KIP-345).
        """
        if group_instance_id is not None:
            static = self.find_static(group_instance_id)
            if static is not None and static.member_id != member_id:
                raise ApiError(ErrorCode.fenced_instance_id)
            if static is None:
                raise ApiError(ErrorCode.unknown_member_id)
        member = self._members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.unknown_member_id)
        return member

    def is_leader(self, member: Member) -> bool:
        """True if the member assigns partitions to all."""
        return member.member_id == self.leader_id

    @property
    def joining_count(self) -> int:
        """The number of members that wait for the next generation."""
        return self._joining_count

    @property
    def has_all_joined(self) -> bool:
        """True if no member is missing for the next generation."""
        return self._joining_count == len(self._members) and not self.pending_joins

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that members have to join the next generation: as much as the slowest wants."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    @property
    def uses_consumer_protocol(self) -> bool:
        """True if its members are consumers, whose subscriptions can be read."""
        return self.protocol_type == PROTOCOL_TYPE

    def is_subscribed_to(self, topic: str) -> bool:
        """True if members read the topic; consumers whose subscriptions are not known might read any."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    def supports(self, protocol_type: str, protocols: Collection[Protocol]) -> bool:
        """True if a client with these protocols can take part."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(protocols)
        count = len(self._members)
        return protocol_type == self.protocol_type and any(
            self._known_protocols[protocol.name] == count for protocol in protocols
        )

    def transit(self, event: GroupEvent, wall_ms: int) -> None:
        """Change the state by the table."""
        self.previous_state = self.state
        self.state = TRANSITIONS[self.state, event]
        self.state_since_ms = wall_ms

    def add(self, member: Member, protocol_type: str, join_ticket: object = None) -> None:
        """Take in a member whose protocols the group supports."""
        assert member.member_id not in self._members
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self._static
            self._static[member.group_instance_id] = member.member_id
        if not self._members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.set_join_ticket(member, join_ticket)
        pending = self.pending_joins.pop(member.member_id, None)
        if pending is not None:
            pending.cancel()

    def remove(self, member: Member) -> None:
        """Take out a member that waits for nothing; its place as the leader goes to the one that is there longest."""
        assert member.join_ticket is None
        assert member.sync_ticket is None
        del self._members[member.member_id]
        self._count_protocols(member.protocols, -1)
        member.session.cancel()
        if member.group_instance_id is not None:
            del self._static[member.group_instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._members), None)
        self.pending_syncs.discard(member.member_id)

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member another id, under which it is unchanged otherwise; it counts as the last that came."""
        assert member.group_instance_id is not None
        old_id = member.member_id
        del self._members[old_id]
        member.member_id = member_id
        self._members[member_id] = member
        self._static[member.group_instance_id] = member_id
        if self.leader_id == old_id:
            self.leader_id = member_id
        if old_id in self.pending_syncs:
            self.pending_syncs.remove(old_id)
            self.pending_syncs.add(member_id)

    def update(
        self, member: Member, protocols: tuple[Protocol, ...], rebalance_timeout_ms: int, session_timeout_ms: int
    ) -> None:
        """Give a member the values of its JoinGroup."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def set_join_ticket(self, member: Member, ticket: object) -> None:
        """A member waits for the next generation, or with None no more."""
        self._joining_count += (ticket is not None) - (member.join_ticket is not None)
        member.join_ticket = ticket

    def elect_joined_leader(self) -> bool:
        """Let the leader be a member that has joined; says whether there is one."""
        leader = None if self.leader_id is None else self._members[self.leader_id]
        if leader is None:
            return False
        if not leader.is_joining:
            joined = next((member for member in self if member.is_joining), None)
            if joined is None:
                return False
            self.leader_id = joined.member_id
        return True

    def select_protocol(self) -> str:
        """The protocol that most members prefer, of the protocols that all know; the first voted for if there are several."""
        count = len(self._members)
        candidates = frozenset(name for name, known in self._known_protocols.items() if known == count)
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def begin_generation(self, wall_ms: int) -> None:
        """Make the present members the next generation; without members the group is empty."""
        self.generation_id = self.generation_id + 1 if self.generation_id < _GENERATION_MAX else 1
        self.pending_syncs.clear()
        self.protocol_name = self.select_protocol() if self._members else None
        self.read_subscriptions()
        self.transit(GroupEvent.ALL_JOINED if self._members else GroupEvent.NONE_JOINED, wall_ms)

    def read_subscriptions(self) -> None:
        """Look up which topics the members of the generation are subscribed to."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        self.subscribed_topics = _union(read_subscribed_topics(member.metadata(self.protocol_name)) for member in self)

    def _count_protocols(self, protocols: tuple[Protocol, ...], step: int) -> None:
        for protocol in protocols:
            self._known_protocols[protocol.name] += step
            if not self._known_protocols[protocol.name]:
                del self._known_protocols[protocol.name]


_GENERATION_MAX: Final = 2**31 - 1


def _union(subscriptions: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """All topics; None if a subscription is not known."""
    topics: set[str] = set()
    for subscription in subscriptions:
        if subscription is None:
            return None
        topics |= subscription
    return frozenset(topics)
