"""OAUTHBEARER (RFC 7628, KIP-255): the client's message with its token, the exchange as the server, and the message of this process.

The first message is a GS2 header, then pairs of a key and a value that each end with the byte 01, then that byte:
``n,a=USER,^Aauth=Bearer TOKEN^Ahost=…^A^A``. The key ``auth`` is there once; other pairs are extensions (KIP-342), which a server may
ignore. A token that is not believed is answered with a challenge that holds a status and no reason; the client answers it by the byte 01,
and the exchange fails. The reason is for the log alone.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from esp.authentication.errors import AuthenticationError, MalformedMessageError
from esp.authentication.exchange import Challenge, KeyWait, Success
from esp.model.shown_names import shown

MESSAGE_BYTES_MAX: Final = 65_536
"""The longest first message that is looked at. Tokens that list hundreds of groups have some 20 kB."""
EXTENSIONS_MAX: Final = 64
INVALID_TOKEN: Final = '{"status":"invalid_token"}'  # noqa: S105 - a status
"""Kafka's challenge, and the text of the failure behind it."""
GIVEN_UP: Final = b"\x01"
"""The client's answer to the challenge."""
_SEPARATOR: Final = "\x01"
_AUTH: Final = "auth"

_NAME: Final = r"(?:[\x02-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""A GS2 name: without the separator, which Kafka lets pass."""
_FIRST: Final = re.compile(
    rf"n,(?:a=(?P<authorization>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x21-\x7e \t\r\n]+)\x01")
_BEARER: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[A-Za-z0-9._~+/-]+=*)")
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


class FirstMessage(NamedTuple):
    """The parts of the client's first message."""

    authorization: str
    """The user as which the client wants to act; empty: the token's."""
    token: str
    extensions: Mapping[str, str]


class KnownToken(NamedTuple):
    """The facts that a token proves."""

    user: str
    groups: tuple[str, ...]
    expires_ms: int
    """The end of its life, by the clock on the wall."""


class Unresolved(NamedTuple):
    """A token that may be signed by a key that is not known yet: the provider's keys are to be fetched first."""

    reason: str
    """The fault of the token if that changes nothing."""


class TokenJudge(Protocol):
    """Believes tokens, or does not."""

    def judge(self, token: str, /) -> KnownToken | Unresolved:
        """Return the facts that a token proves, or that keys must be fetched first.

        Raises:
            AuthenticationError: the token is not believed; the reason is for the log, and quotes nothing of a signature.
        """


def parse_first_message(message: bytes) -> FirstMessage:
    """Read the client's first message.

    Raises:
        MalformedMessageError: it is none, is too long, has two tokens or none, or two extensions of one name.
    """
    if len(message) > MESSAGE_BYTES_MAX:
        raise MalformedMessageError(f"the first message of OAUTHBEARER is too long: {len(message)} bytes")
    try:
        match = _FIRST.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise MalformedMessageError("the first message of OAUTHBEARER is malformed")
    pairs: dict[str, str] = {}
    for name, value in _PAIR.findall(match["pairs"]):
        if name in pairs:
            raise MalformedMessageError(f"the first message of OAUTHBEARER has the key {shown(name)} twice")
        if len(pairs) > EXTENSIONS_MAX:
            raise MalformedMessageError(f"the first message of OAUTHBEARER has more than {EXTENSIONS_MAX} extensions")
        pairs[name] = value
    bearer = _BEARER.fullmatch(pairs.pop(_AUTH, ""))
    if bearer is None or bearer["scheme"].lower() != "bearer":
        raise MalformedMessageError("the first message of OAUTHBEARER has no bearer token")
    authorization = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
    return FirstMessage(authorization, bearer["token"], pairs)


def build_first_message(token: str, extensions: Mapping[str, str]) -> bytes:
    """Return the message of a client.

    Raises:
        ValueError: the token or an extension has characters that no message can hold.
    """
    if _BEARER.fullmatch(f"Bearer {token}") is None:
        raise ValueError("the token has other characters than those of a bearer token")
    for name, value in extensions.items():
        if name == _AUTH or not _EXTENSION_NAME.fullmatch(name) or not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(f"the extension {name} has a name or a value that no message can hold")
    pairs = {_AUTH: f"Bearer {token}", **extensions}
    return ("n,,\x01" + "".join(f"{name}={value}{_SEPARATOR}" for name, value in pairs.items()) + "\x01").encode()


class OauthBearerExchange:
    """One log-in as the server; see :class:`esp.authentication.exchange.Exchange`.

    Args:
        judge: believes tokens.
        wall_ms: returns the time.
    """

    def __init__(self, judge: TokenJudge, wall_ms: Callable[[], int]) -> None:
        self._judge = judge
        self._wall_ms = wall_ms
        self._fault = ""
        """The reason for which the token is not believed; the client has been told that it is not."""

    def respond(self, message: bytes) -> Success | Challenge | KeyWait:
        """See :class:`esp.authentication.exchange.Exchange`."""
        if self._fault:
            how = "" if message == GIVEN_UP else ", and the client went on"
            raise AuthenticationError(self._fault + how, INVALID_TOKEN)
        return self._look(parse_first_message(message), may_wait=True)

    def _look(self, first: FirstMessage, *, may_wait: bool) -> Success | Challenge | KeyWait:
        try:
            known = self._judge.judge(first.token)
        except AuthenticationError as error:
            return self._refuse(error.reason)
        if isinstance(known, Unresolved):
            if may_wait:
                return KeyWait(lambda _is_fetched: self._look_again(first))
            return self._refuse(known.reason)
        if first.authorization not in ("", known.user):
            text = (
                f"Authentication failed: Client requested an authorization id ({first.authorization}) that is different from the token's "
                f"principal name ({known.user})"
            )
            raise AuthenticationError(f"the user {shown(known.user)} asks to act as {shown(first.authorization)}", text)
        lifetime_ms = known.expires_ms - self._wall_ms()
        if lifetime_ms <= 0:
            return self._refuse("the token has expired")
        return Success(known.user, groups=known.groups, lifetime_ms=lifetime_ms)

    def _look_again(self, first: FirstMessage) -> Success | Challenge:
        outcome = self._look(first, may_wait=False)
        assert not isinstance(outcome, KeyWait), "keys are waited for once"
        return outcome

    def _refuse(self, fault: str) -> Challenge:
        self._fault = fault
        return Challenge(INVALID_TOKEN.encode(), fault)
