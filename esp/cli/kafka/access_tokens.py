"""The tokens by which the tools log in (OAUTHBEARER): from a file, or from an endpoint for a client's name and password.

The rules are those of :mod:`esp.authentication.own_tokens`. The tools wait while an endpoint answers; redirects are not followed.
"""

import http.client
import importlib
import secrets
import ssl
import time
from collections.abc import Mapping
from typing import Final

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import MESSAGE_BYTES_MAX
from esp.authentication.own_tokens import (
    build_token_request,
    find_end_ms,
    read_token_answer,
    read_token_file,
    refresh_ms,
)
from esp.model.oauth import OauthLogin

_BODY_BYTES_MAX: Final = 1_048_576
_PARTS: Final = 1_000


class ToolTokens:
    """The tokens of one command; one is kept until another is to be got.

    Args:
        login: the terms.
    """

    def __init__(self, login: OauthLogin) -> None:
        self.login = login
        self._token = ""
        self._until_ms = 0

    def token(self) -> str:
        """Return a token that counts yet.

        Raises:
            AuthenticationError: there is none to be had.
        """
        if not self._token or _now_ms() >= self._until_ms:
            self._token = self._read() if self.login.source.path else self._ask()
            end_ms = find_end_ms(self._token)
            part = secrets.randbelow(_PARTS) / _PARTS
            self._until_ms = 0 if end_ms is None else refresh_ms(self.login, _now_ms(), end_ms, part)
        return self._token

    def extensions(self) -> Mapping[str, str]:
        """Return what is sent beside a token."""
        return self.login.extensions

    def _read(self) -> str:
        path = self.login.source.path
        try:
            with open(path, "rb") as file:
                return read_token_file(file.read(MESSAGE_BYTES_MAX + 1))
        except OSError as error:
            raise AuthenticationError(f"the file {path} of the token cannot be read: {error.strerror}") from error

    def _ask(self) -> str:
        """Ask the endpoint; again after failures, until the longest delay is over."""
        login, delay_s = self.login, self.login.backoff_ms / 1_000
        assert login.tls is not None, "an endpoint speaks TLS"
        context: ssl.SSLContext = importlib.import_module("esp.runtime.tls.contexts").load_client_context_blocking(
            login.tls
        )
        until_s = time.monotonic() + login.backoff_max_ms / 1_000
        while True:
            try:
                return read_token_answer(self._fetch(context))
            except (OSError, http.client.HTTPException) as error:
                if time.monotonic() + delay_s > until_s:
                    raise AuthenticationError(f"no token of {login.source}: {error}") from error
                time.sleep(delay_s)
                delay_s *= 2

    def _fetch(self, context: ssl.SSLContext) -> bytes:
        login, place = self.login, self.login.source
        request = build_token_request(login)
        connection = http.client.HTTPSConnection(
            place.host, place.port, timeout=login.connect_timeout_ms / 1_000, context=context
        )
        try:
            connection.connect()
            connection.sock.settimeout(login.read_timeout_ms / 1_000)
            connection.request(
                "POST", place.target, request.body, {"Accept": "application/json", **dict(request.headers)}
            )
            with connection.getresponse() as answer:
                if answer.status != http.client.OK:
                    raise http.client.HTTPException(
                        f"it was answered with status {answer.status}, and redirects are not followed"
                    )
                body = answer.read(_BODY_BYTES_MAX + 1)
        finally:
            connection.close()
        if len(body) > _BODY_BYTES_MAX:
            raise http.client.HTTPException(f"the answer has more than {_BODY_BYTES_MAX} bytes")
        return body


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
