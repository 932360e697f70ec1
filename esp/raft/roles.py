"""The roles of a quorum member, and how it may pass from one to another: Kafka's ``QuorumState`` (KIP-595, KIP-996)."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Role(Enum):
    """What a member does in its epoch."""

    UNATTACHED = "unattached"
    """It follows nobody: it knows of no leader, or cannot reach the one it knows."""
    PROSPECTIVE = "prospective"
    """It asks whether it would be elected (pre-vote)."""
    CANDIDATE = "candidate"
    """It asks for votes; its own is its first."""
    LEADER = "leader"
    """A majority voted for it."""
    FOLLOWER = "follower"
    """It fetches from the leader."""
    RESIGNED = "resigned"
    """It led this epoch, and never leads it again (RAFT-5)."""


TRANSITIONS: Final[Mapping[Role, frozenset[Role]]] = MappingProxyType(
    {
        Role.UNATTACHED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
        Role.PROSPECTIVE: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.FOLLOWER}),
        Role.CANDIDATE: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER}),
        Role.LEADER: frozenset({Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED}),
        Role.FOLLOWER: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
        Role.RESIGNED: frozenset({Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER}),
    }
)
"""From each role, those that may follow.

Only a candidate becomes leader, and only a prospective one a candidate, in a new epoch. Within its epoch a leader can only resign.
"""
