"""The place from which this node gets the tokens of its own log-ins; one is kept until another is to be got."""

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
from esp.broker.authentication.web_fetch import FetchError, fetch
from esp.model.oauth import OauthLogin
from esp.ports.env import Env

_PARTS: Final = 1_000


class TokenSource:
    """The tokens for log-ins at one address.

    Args:
        env: the outside.
        login: the terms.
    """

    def __init__(self, env: Env, login: OauthLogin) -> None:
        self._env = env
        self._login = login
        self._token = ""
        self._until_ms = 0

    async def token(self) -> str:
        """Return a token that counts yet.

        Raises:
            AuthenticationError: there is none to be had.
        """
        if self._token and self._env.clock.wall_ms() < self._until_ms:
            return self._token
        token = await self._read() if self._login.source.path else await self._ask()
        now_ms, end_ms = self._env.clock.wall_ms(), find_end_ms(token)
        self._token = token
        part = self._env.random.below(_PARTS) / _PARTS
        self._until_ms = 0 if end_ms is None else refresh_ms(self._login, now_ms, end_ms, part)
        return token

    def forget(self) -> None:
        """Get another token next time: this one was refused."""
        self._token = ""

    async def _read(self) -> str:
        path = self._login.source.path
        try:
            return read_token_file(await self._env.cpu.run_waiting(self._read_blocking))
        except OSError as error:
            raise AuthenticationError(f"the file {path} of the token cannot be read: {error}") from error

    def _read_blocking(self) -> bytes:
        disk, path = self._env.disk, self._login.source.path
        if disk.stat(path).size > MESSAGE_BYTES_MAX:
            raise OSError(f"it has more than {MESSAGE_BYTES_MAX} bytes")
        return disk.read_file(path)

    async def _ask(self) -> str:
        """Ask the endpoint; again after failures, until the longest delay is over."""
        clock, login = self._env.clock, self._login
        request = build_token_request(login)
        delay_us = login.backoff_ms * 1_000
        latest_us = clock.monotonic_us() + login.backoff_max_ms * 1_000
        while True:
            try:
                answer = await fetch(
                    self._env.network,
                    login.source,
                    login.tls,
                    connect_timeout_ms=login.connect_timeout_ms,
                    read_timeout_ms=login.read_timeout_ms,
                    headers=request.headers,
                    body=request.body,
                )
            except FetchError as error:
                if clock.monotonic_us() + delay_us > latest_us:
                    raise AuthenticationError(f"no token of {login.source}: {error}") from error
                await clock.sleep_us(delay_us)
                delay_us *= 2
            else:
                return read_token_answer(answer)
