"""Delegation tokens (KIP-48): names and passwords that a user hands to programs, which act as the user for a limited time.

What a token is stands in the metadata log; its password is made of its id by a secret of the nodes (:mod:`esp.model.delegation_passwords`).
Principals are texts such as ``User:alice``. Times are milliseconds of the clock on the wall.
"""

from dataclasses import dataclass
from typing import Final

from esp.model.calendar import LATEST_MS

USER: Final = "User"
"""The type of principals that log in, and so of owners and renewers."""


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """One token."""

    token_id: str
    owner: str
    """The principal that its bearer is."""
    requester: str
    """The principal that asked for it."""
    renewers: tuple[str, ...]
    """The principals that may renew and expire it, besides its owner."""
    issue_ms: int
    max_ms: int
    """The time from which on it cannot be renewed."""
    expiry_ms: int
    """The time until which it counts, unless it is renewed before."""

    def is_expired(self, now_ms: int) -> bool:
        """True if it counts no more, and is to be removed (TOKEN-1)."""
        return self.left_ms(now_ms) < 0

    def left_ms(self, now_ms: int) -> int:
        """The milliseconds for which it counts yet; not above 0 if its time is over."""
        return min(self.max_ms, self.expiry_ms, LATEST_MS) - now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """True of its owner and its renewers."""
        return principal == self.owner or principal in self.renewers

    @property
    def principals(self) -> tuple[str, ...]:
        """The principals that see it without any permission."""
        return (self.owner, self.requester, *self.renewers)


def principal_of(kind: str, name: str) -> str:
    """Return a principal as one text."""
    return f"{kind}:{name}"


def parts_of(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
