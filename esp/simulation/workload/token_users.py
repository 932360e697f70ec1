"""The users that log in at simulated nodes, by PLAIN, to ask for delegation tokens."""

from typing import Final

OWNERS: Final = ("alice", "bob")
STRANGER: Final = "mallory"
"""A user that owns no token and may renew none."""


def password_of(user: str) -> str:
    """The password of a user."""
    return f"{user}'s password"
