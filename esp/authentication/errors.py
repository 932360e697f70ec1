"""The ways in which an exchange ends without an authenticated peer."""

from typing import Final

OTHER_USER: Final = "Authentication failed: Client requested an authorization id that is different from username"
"""Kafka's text for a client that asks to act as another user than the one that it authenticates as."""
NAME_CHARACTERS_MAX: Final = 100
"""As much of a name is logged where it is quoted."""
PLAIN_CHARACTERS_MAX: Final = 256
"""Longer names are quoted, and cut off: the names of topics have at most 249 characters."""


class AuthenticationError(Exception):
    """The other side is not authenticated.

    Args:
        reason: the fault, for the log of this side; it quotes no password, proof, salt or token.
        message: the text for the other side. Empty: it learns no more than that its credentials are invalid.
    """

    def __init__(self, reason: str, message: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.message = message


class UnexpectedMessageError(Exception):
    """The client sent a message that is not allowed before it is authenticated, or not at this moment; the connection ends."""


class MalformedMessageError(AuthenticationError):
    """The other side's message has no form that its mechanism knows: it guesses no password, and is answered soon (AUTHN-6)."""


def shown(name: str) -> str:
    """Return a name that a client chose, for the log: in quotation marks, without line breaks, and cut off where it is long."""
    return repr(name[:NAME_CHARACTERS_MAX])


def in_line(name: str) -> str:
    """Return a name for a line of the log: as it is, or as :func:`shown` where it is long or has characters that are not printed as such.

    A user's name may have any character but NUL: with a line break in it, it would forge a line of the log.
    """
    return name if len(name) <= PLAIN_CHARACTERS_MAX and name.isprintable() else shown(name)
