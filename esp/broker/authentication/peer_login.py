"""A connection to another node logs in, and logs in again before the time is over for which a log-in counts (KIP-43, KIP-368).

The connection stays the same when the log-in is renewed: fetch sessions, waiting fetches and the controller's watch over a broker's
connection belong to it. Requests that are made meanwhile wait for the end of the renewal, as Kafka's server asks for it.
"""

import base64
import importlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest

from esp.authentication.errors import AuthenticationError
from esp.authentication.login import ROUNDS_MAX, begin_login
from esp.broker.connections.peer import Ask, LoginRefusedError
from esp.model.errors import ErrorCode
from esp.model.sasl_login import SaslLogin
from esp.ports.env import Env
from esp.ports.network import Address
from esp.ports.random import random_bytes
from esp.protocol.registry import ApiKey

if TYPE_CHECKING:
    from esp.broker.authentication.token_source import TokenSource

log = logging.getLogger(__name__)

_SOURCE: Final = "esp.broker.authentication.token_source"  # loaded only where this node logs in by tokens

NONCE_BYTES: Final = 18

RENEW_PERCENT_MIN: Final = 85
RENEW_PERCENT_MAX: Final = 95
"""The part of a log-in's time after which it is renewed, as in Kafka's clients; drawn each time, so that nodes do not renew at once."""

TOLD_AGAIN_US: Final = 30_000_000


class PeerLogin:
    """The log-ins of this node at one address (:class:`esp.broker.connections.peer.LogIn`); refused ones are logged.

    Args:
        env: the outside.
        address: of the other side.
        login: the terms.
    """

    def __init__(self, env: Env, address: Address, login: SaslLogin) -> None:
        self._env = env
        self._address = address
        self._login = login
        self._tokens: TokenSource | None = None
        if login.oauth is not None:
            self._tokens = importlib.import_module(_SOURCE).TokenSource(env, login.oauth)
        self._told = ""
        self._told_until_us = 0

    async def log_in(self, ask: Ask) -> int:
        """See :class:`esp.broker.connections.peer.LogIn`."""
        try:
            lifetime_ms = await self._exchange(ask)
        except AuthenticationError as error:
            if self._tokens is not None:
                self._tokens.forget()
            self._tell(error.reason)
            raise LoginRefusedError(f"the log-in as {self._login.username} failed: {error.reason}") from error
        self._told = ""
        percent = RENEW_PERCENT_MIN + self._env.random.below(RENEW_PERCENT_MAX - RENEW_PERCENT_MIN)
        return lifetime_ms * percent // 100

    async def _exchange(self, ask: Ask) -> int:
        """Go through a mechanism's exchange; return the milliseconds for which the log-in counts.

        Raises:
            AuthenticationError: it failed.
        """
        token = "" if self._tokens is None else await self._tokens.token()
        handshake = await ask(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest(mechanism=self._login.mechanism.value))
        if handshake.error_code is ErrorCode.unsupported_sasl_mechanism:
            served = ", ".join(sorted(handshake.mechanisms)) or "no mechanism"
            raise AuthenticationError(f"the listener serves {served} (sasl.enabled.mechanisms there)")
        if handshake.error_code is not ErrorCode.none:
            raise AuthenticationError(f"the handshake was answered {handshake.error_code.name}")
        exchange = begin_login(self._login, self._make_nonce, token)
        message: bytes | None = exchange.first_message()
        for _ in range(ROUNDS_MAX):
            assert message is not None, "the exchange goes on"
            answer = await ask(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(auth_bytes=message))
            if answer.error_code is not ErrorCode.none:
                raise AuthenticationError(answer.error_message or answer.error_code.name)
            lifetime_ms: int = answer.session_lifetime // timedelta(milliseconds=1)
            message = await self._env.cpu.run(exchange.respond, answer.auth_bytes)
            if message is None:
                return max(0, lifetime_ms)
        raise AuthenticationError("the exchange does not end")

    def _make_nonce(self) -> str:
        return base64.b64encode(random_bytes(self._env.random, NONCE_BYTES)).decode()

    def _tell(self, reason: str) -> None:
        """Log a refusal; the same one again after :data:`TOLD_AGAIN_US`, as there are many attempts."""
        now_us = self._env.clock.monotonic_us()
        if reason == self._told and now_us < self._told_until_us:
            return
        self._told, self._told_until_us = reason, now_us + TOLD_AGAIN_US
        log.error(
            "this node cannot log in at %s as %s by %s: %s. %s",
            self._address,
            self._login.username,
            self._login.mechanism.value,
            reason,
            _remedy(self._login),
        )


def _remedy(login: SaslLogin) -> str:
    if login.oauth is not None:
        return (
            f"The token is that of {login.oauth.source} (sasl.oauthbearer.token.endpoint.url); its issuer and audience must be those of "
            "sasl.oauthbearer.expected.… at the other node, whose log has the reason of a refusal"
        )
    if login.mechanism.scram is None:
        return (
            f"The user and the password of {login.setting} must be among those of the other node: user_{login.username} in its "
            "PlainLoginModule"
        )
    return (
        f"The user of {login.setting} needs a {login.mechanism.value} credential with that password: esp format --add-scram before the "
        f"first start, or esp users rotate {login.username}"
    )
