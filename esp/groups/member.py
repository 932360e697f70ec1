"""A member of a group."""

from dataclasses import dataclass, field

from esp.groups.deadlines import Timer
from esp.groups.requests import Protocol
from esp.groups.responses import DescribedMember, JoinedMember


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
    """Of the JoinGroup that waits; :class:`~esp.groups.group.Group` counts these."""
    sync_ticket: object = None
    """Of the SyncGroup that waits."""
    is_new: bool = False
    """Whether it waits for its first generation: it knows no member id yet, so no heartbeat can be expected of it."""
    session: Timer = field(default_factory=Timer)

    @property
    def is_static(self) -> bool:
        """Whether it keeps its place when it comes back (KIP-345)."""
        return self.group_instance_id is not None

    @property
    def is_joining(self) -> bool:
        """Whether its JoinGroup waits for an answer."""
        return self.join_ticket is not None

    @property
    def needs_no_heartbeat(self) -> bool:
        """Whether it may be silent, because it waits for an answer."""
        return not self.is_new and (self.join_ticket is not None or self.sync_ticket is not None)

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says of itself in this protocol; empty if it does not know it."""
        return next((protocol.metadata for protocol in self.protocols if protocol.name == protocol_name), b"")

    def vote(self, candidates: frozenset[str]) -> str:
        """The protocol that it prefers among those that all members know."""
        return next(protocol.name for protocol in self.protocols if protocol.name in candidates)

    def joined(self, protocol_name: str | None) -> JoinedMember:
        """What the leader is told of it."""
        return JoinedMember(self.member_id, self.group_instance_id, self.metadata(protocol_name))

    def described(self, protocol_name: str | None) -> DescribedMember:
        """What an administrator is told of it: without a protocol no metadata, but its last assignment."""
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
