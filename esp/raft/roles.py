"""The roles of a quorum member, and how it may pass from one to another: Kafka's ``QuorumState``."""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Role(Enum):
    """What a member does in its epoch."""

    UNATTACHED = "unattached"
    """It knows of no leader."""
    RESIGNED = "resigned"
    """It led this epoch before it was restarted, and never leads it again (RAFT-5)."""
    CANDIDATE = "candidate"
    """It asks for votes; its own is its first."""
    LEADER = "leader"
    """A majority voted for it."""


TRANSITIONS: Final[Mapping[Role, frozenset[Role]]] = MappingProxyType(
    {
        Role.UNATTACHED: frozenset({Role.CANDIDATE}),
        Role.RESIGNED: frozenset({Role.CANDIDATE}),
        Role.CANDIDATE: frozenset({Role.LEADER}),
        Role.LEADER: frozenset(),
    }
)
"""From each role, those that may follow. A member starts unattached or resigned; it becomes a candidate only in a new epoch."""
