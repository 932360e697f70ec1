"""The ways in which an exchange ends without an authenticated peer."""

from typing import Final

OTHER_USER: Final = "Authentication failed: Client requested an authorization id that is different from username"
"""Kafka's text for a client that asks to act as another user than the one that it authenticates as."""


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
