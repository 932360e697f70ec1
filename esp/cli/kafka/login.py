"""The log-ins of the tools: the exchanges of :mod:`esp.authentication` in kafka-python's connections and in the tools' own.

kafka-python's SCRAM takes a million iterations from a server, which is 25 times as many as the longest that Kafka keeps, and names with
commas or equals signs it cannot send.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from esp.authentication.errors import AuthenticationError
from esp.authentication.login import ROUNDS_MAX, ClientExchange, begin_login, begin_token_login
from esp.cli.kafka.access_tokens import ToolTokens
from esp.cli.kafka.command_config import SASL_LOGIN, TokenId, settings_for
from esp.cli.kafka.library import SaslAuthenticationFailedError, SaslMechanismOfLibrary, register_sasl_mechanism
from esp.model.errors import ErrorCode, OperatorError
from esp.model.sasl import SaslMechanism
from esp.model.sasl_login import SaslLogin

NONCE_BYTES = 18

REMEDY = (
    "Correct sasl.mechanism and sasl.jaas.config in the file of --command-config; an administrator gives users other passwords by "
    "`esp users rotate NAME`."
)
REMEDY_OF_TOKENS = (
    "The delegation token may have ended: make another one by `esp tokens create`, and put its line into the file of "
    "--command-config."
)
REMEDY_OF_ACCESS_TOKENS = (
    "The broker's log has the reason: correct what the provider writes into the token, or sasl.oauthbearer.… in the file of "
    "--command-config."
)


class TokenProvider(Protocol):
    """Gives connections of kafka-python their tokens: :class:`~esp.cli.kafka.access_tokens.ToolTokens`, or one of another program's own."""

    def token(self) -> str:
        """A token that counts yet."""

    def extensions(self) -> Mapping[str, str]:
        """The extensions that are sent beside it."""


class LibraryLogin(SaslMechanismOfLibrary):  # type: ignore[misc]  # the library has no types
    """One log-in of kafka-python's, which makes it of the settings of its connection."""

    def __init__(self, **config: Any) -> None:
        mechanism = SaslMechanism(config["sasl_mechanism"])
        if mechanism is SaslMechanism.OAUTHBEARER:
            self._exchange = _begin_by_token(config["sasl_oauth_token_provider"])
        else:
            username = config["sasl_plain_username"]
            is_token = isinstance(username, TokenId)
            login = SaslLogin(mechanism, username, config["sasl_plain_password"], is_token=is_token)
            self._exchange = begin_login(login, _make_nonce)
        self._message: bytes | None = self._exchange.first_message()

    def auth_bytes(self) -> bytes:
        """Return the next message for the server."""
        assert self._message is not None, "the exchange goes on"
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        """Take the server's answer.

        Raises:
            SaslAuthenticationFailedError: the server does not prove that it knows the user.
        """
        try:
            self._message = self._exchange.respond(auth_bytes)
        except AuthenticationError as error:
            raise SaslAuthenticationFailedError(error.reason) from error

    def is_done(self) -> bool:
        """True when the exchange is complete."""
        return self._message is None

    def is_authenticated(self) -> bool:
        """True when both sides are convinced."""
        return self._message is None


def _begin_by_token(tokens: TokenProvider) -> ClientExchange:
    try:
        return begin_token_login(tokens.token(), tokens.extensions())
    except AuthenticationError as error:
        raise SaslAuthenticationFailedError(error.reason) from error


def log_in(login: SaslLogin, tokens: ToolTokens | None, exchange: Callable[[Any], Any], broker: str) -> None:
    """Log in on a connection of the tools' own.

    Args:
        login: the terms.
        tokens: those of OAUTHBEARER.
        exchange: sends one of kio's requests, and returns the answer.
        broker: its address, for the message.

    Raises:
        OperatorError: the broker refuses, or does not prove that it knows the user.
    """
    try:
        handshake = exchange(SaslHandshakeRequest(mechanism=login.mechanism.value))
        if handshake.error_code is not ErrorCode.none:
            served = ", ".join(sorted(handshake.mechanisms))
            raise AuthenticationError(f"it serves the mechanisms {served}, and not {login.mechanism.value}")
        messages = begin_login(login, _make_nonce, "" if tokens is None else tokens.token())
        message: bytes | None = messages.first_message()
        for _ in range(ROUNDS_MAX):
            assert message is not None, "the exchange goes on"
            answer = exchange(SaslAuthenticateRequest(auth_bytes=message))
            if answer.error_code is not ErrorCode.none:
                raise AuthenticationError(answer.error_message or answer.error_code.name)
            message = messages.respond(answer.auth_bytes)
            if message is None:
                return
        raise AuthenticationError("the exchange does not end")
    except AuthenticationError as error:
        raise refused_login(broker, error.reason) from error


def refused_login(broker: str, reason: str) -> OperatorError:
    """The error of a command that is not let in."""
    login = settings_for({SASL_LOGIN: None}).get(SASL_LOGIN)
    remedy = REMEDY
    if login is not None and login.oauth is not None:
        remedy = REMEDY_OF_ACCESS_TOKENS
    elif login is not None and login.is_token:
        remedy = REMEDY_OF_TOKENS
    return OperatorError(f"the broker at {broker} does not let this command in: {reason}", remedy)


def _make_nonce() -> str:
    return secrets.token_urlsafe(NONCE_BYTES)


for _mechanism in SaslMechanism:
    register_sasl_mechanism(_mechanism.value, LibraryLogin, overwrite=True)
