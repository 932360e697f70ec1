"""PLAIN (RFC 4616, KIP-43): a user's name and password in one message, as the server reads and checks it.

The texts for the client are those of Kafka's ``PlainSaslServer``. Passwords are compared by :func:`hmac.compare_digest` only, and an
unknown user takes the way of a wrong password.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from esp.authentication.credentials import CredentialLookup
from esp.authentication.errors import OTHER_USER, AuthenticationError, MalformedMessageError
from esp.authentication.exchange import SlowCheck, Success
from esp.authentication.scram import is_password
from esp.model.shown_names import shown

_PARTS: Final = 3
_PARTS_READ_MAX: Final = 4
_INVALID: Final = "Authentication failed: Invalid username or password"


class PlainLogin(NamedTuple):
    """The parts of the message."""

    authorization: str
    user: str
    password: str


def parse_plain(message: bytes) -> PlainLogin:
    """Read the client's message.

    Raises:
        MalformedMessageError: it is none.
    """
    text = message.decode(errors="replace")
    parts = text.split("\0", _PARTS_READ_MAX)[:_PARTS_READ_MAX]
    if len(parts) != _PARTS:
        reason = f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
        raise MalformedMessageError(reason, reason)
    login = PlainLogin(*parts)
    for name, value in (("username", login.user), ("password", login.password)):
        if not value:
            reason = f"Authentication failed: {name} not specified"
            raise MalformedMessageError(reason, reason)
    if "\N{REPLACEMENT CHARACTER}" in text:
        raise MalformedMessageError("the message of PLAIN is no UTF-8", _INVALID)
    return login


def _conclude(login: PlainLogin, is_right: bool) -> Success:
    """Return the success of a log-in, given the result of the check of its password.

    Raises:
        AuthenticationError: the password is wrong, or the user asks to act as another one.
    """
    if not is_right:
        raise AuthenticationError(f"wrong password, or no such user: {shown(login.user)}", _INVALID)
    if login.authorization not in ("", login.user):
        raise AuthenticationError(
            f"the user {shown(login.user)} asks to act as {shown(login.authorization)}",
            OTHER_USER,
        )
    return Success(login.user)


class PlainExchange:
    """Checks a password against those of the node's settings; see :class:`esp.authentication.exchange.Exchange`.

    Args:
        users: the passwords by their users' names.
    """

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users

    def respond(self, message: bytes) -> Success:
        """See :class:`esp.authentication.exchange.Exchange`."""
        login = parse_plain(message)
        expected = self._users.get(login.user)
        # Of hashes, so that the time says nothing of the lengths.
        is_same = hmac.compare_digest(_hash(login.password), _hash(expected or ""))
        return _conclude(login, is_same and expected is not None)


class PlainOverScramExchange:
    """Checks a password against the credentials of SCRAM, in milliseconds; see :class:`esp.authentication.exchange.Exchange`.

    Args:
        lookup: finds credentials.
    """

    def __init__(self, lookup: CredentialLookup) -> None:
        self._lookup = lookup

    def respond(self, message: bytes) -> SlowCheck:
        """See :class:`esp.authentication.exchange.Exchange`."""
        login = parse_plain(message)
        mechanism, found = self._lookup.find_any(login.user)

        def is_right() -> bool:
            return is_password(mechanism, login.password, found.credential) and found.is_real

        def conclude(is_right: bool) -> Success:
            return _conclude(login, is_right and self._lookup.is_in_force(login.user, mechanism, found))

        return SlowCheck(is_right, conclude)


def _hash(password: str) -> bytes:
    return hashlib.sha256(password.encode()).digest()
