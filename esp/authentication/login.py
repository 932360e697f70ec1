"""The client's side of a log-in by PLAIN, SCRAM or OAUTHBEARER: messages for the server, made of its challenges.

It takes at most :data:`ROUNDS_MAX` messages of the server. The server's signature is checked: a server that does not know the credential
is not believed.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import GIVEN_UP, build_first_message
from esp.authentication.scram import ScramClient
from esp.model.sasl_login import SaslLogin

ROUNDS_MAX: Final = 2
"""Messages of the server in an exchange of SCRAM. PLAIN and OAUTHBEARER have one, which is empty unless a token is refused."""


class ClientExchange(Protocol):
    """One log-in. A message of the server may take milliseconds: the password is hashed."""

    def first_message(self) -> bytes:
        """The message that begins the exchange."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the answer to the server's next message; None if the exchange is complete.

        Raises:
            AuthenticationError: the message is malformed, or the server is not the one that knows the credential.
        """


def begin_login(login: SaslLogin, make_nonce: Callable[[], str], token: str = "") -> ClientExchange:
    """Return the exchange of a log-in.

    Args:
        login: its terms.
        make_nonce: makes a nonce that was never used before.
        token: for OAUTHBEARER.

    Raises:
        AuthenticationError: a token, or an extension beside it, has characters that no message can hold.
    """
    scram = login.mechanism.scram
    if login.oauth is not None:
        return _TokenLogin(token, login.oauth.extensions)
    if scram is None:
        return _PlainLogin(login)
    return _ScramLogin(ScramClient(scram, login.username, login.password, make_nonce(), is_token=login.is_token))


def begin_token_login(token: str, extensions: Mapping[str, str]) -> ClientExchange:
    """Return the exchange of a log-in by an access token that is at hand already.

    Raises:
        AuthenticationError: the token, or an extension beside it, has characters that no message can hold.
    """
    return _TokenLogin(token, extensions)


class _PlainLogin:
    def __init__(self, login: SaslLogin) -> None:
        self._message = f"\0{login.username}\0{login.password}".encode()

    def first_message(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> None:
        if challenge:
            raise AuthenticationError(f"the server sent {len(challenge)} bytes more than PLAIN has")


class _TokenLogin:
    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        try:
            self._message = build_first_message(token, extensions)
        except ValueError as error:
            raise AuthenticationError(str(error)) from error

    def first_message(self) -> bytes:
        return self._message

    def respond(self, challenge: bytes) -> bytes | None:
        return GIVEN_UP if challenge else None


class _ScramLogin:
    def __init__(self, client: ScramClient) -> None:
        self._client = client
        self._has_proof = False

    def first_message(self) -> bytes:
        return self._client.first_message()

    def respond(self, challenge: bytes) -> bytes | None:
        if self._has_proof:
            self._client.on_server_final(challenge)
            return None
        self._has_proof = True
        return self._client.on_server_first(challenge)
