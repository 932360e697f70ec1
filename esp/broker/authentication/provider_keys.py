"""The keys of identity providers at this node: fetched from endpoints or files, again and again, and judges of tokens that use them.

The core is :mod:`esp.authentication.signing_keys`. Fetches wait off the loop, and keys are read in a thread: a list of a mebibyte takes
milliseconds. While a provider is away its keys stay, and an error is logged with each new reason and every :data:`TOLD_AGAIN_US`.
"""

import asyncio
import logging
from typing import Final

from esp.authentication.oauthbearer import OauthBearerExchange
from esp.authentication.signing_keys import SigningKeys
from esp.authentication.token_judge import PublicKey, SignedTokenJudge, parse_key_set
from esp.broker.authentication.web_fetch import BODY_BYTES_MAX, FetchError, fetch
from esp.broker.tasks import Tasks
from esp.model.errors import OperatorError
from esp.model.oauth import OauthTerms
from esp.ports.clock import Timer
from esp.ports.env import Env

log = logging.getLogger(__name__)

FETCH_TIMEOUT_MS: Final = 10_000
"""For the connection, and again for the answer."""
KEY_WAIT_S: Final = 5.0
"""The time that a log-in waits for keys: less than a client has to be authenticated."""
WAITING_MAX: Final = 1_000
"""The most log-ins that wait for keys; each keeps its token, of 64 KiB at most."""
TOLD_AGAIN_US: Final = 300_000_000


class ProviderKeys:
    """The keys for the tokens of one listener.

    Args:
        env: the outside.
        terms: those of the listener.
        tasks: where fetches are made.
        waiting_max: the most log-ins that wait for keys.
    """

    def __init__(self, env: Env, terms: OauthTerms, tasks: Tasks, waiting_max: int = WAITING_MAX) -> None:
        self._env = env
        self._terms = terms
        self._tasks = tasks
        self._keys: SigningKeys[PublicKey] = SigningKeys(
            terms.refresh_ms, terms.backoff_ms, terms.backoff_max_ms, env.clock.monotonic_us()
        )
        self._judge = SignedTokenJudge(terms, self._keys, env.clock.wall_ms)
        self._timer: Timer | None = None
        self._fetched: asyncio.Event | None = None
        """Set when the fetch ends that is under way."""
        self._room = waiting_max
        """For so many more log-ins that wait."""
        self._told = ""
        self._told_until_us = 0
        self._is_over = False

    def read_file_blocking(self) -> None:
        """Read the keys of a file; those of an endpoint are fetched later, since a node must start while its provider is away.

        Raises:
            OperatorError: the file holds none.
        """
        place = self._terms.keys
        if not place.path:
            return
        self._keys.begin(self._env.clock.monotonic_us())
        try:
            keys = self._read_blocking()
        except (OSError, ValueError) as error:
            raise OperatorError(
                f"sasl.oauthbearer.jwks.endpoint.url={place}: {error}",
                "Name a file of your provider's public keys (JWKS) that this node may read.",
            ) from error
        self._keys.on_fetched(keys, self._env.clock.monotonic_us())

    def begin(self) -> None:
        """Fetch the keys whenever it is time, from now on."""
        if self._keys.is_fetching or self._is_over:
            return  # the timer is set when the fetch ends
        wait_us = self._keys.due_us - self._env.clock.monotonic_us()
        self._timer = self._env.clock.call_later_us(max(0, wait_us), self._start)

    def end(self) -> None:
        """Fetch no more."""
        self._is_over = True
        self._stop_timer()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def exchange(self) -> OauthBearerExchange:
        """Return a new log-in as the server."""
        return OauthBearerExchange(self._judge, self._env.clock.wall_ms)

    async def wait_for_new(self) -> bool:
        """Return when the keys have been fetched.

        False: they were fetched a moment ago, they do not come in time, or there are too many that wait.
        """
        if not self._keys.is_fetching:
            if not self._keys.may_fetch(self._env.clock.monotonic_us()):
                return False
            self._start()
        if self._fetched is None or not self._room:
            return False
        self._room -= 1
        try:
            async with asyncio.timeout(KEY_WAIT_S):
                await self._fetched.wait()
        except TimeoutError:
            return False
        finally:
            self._room += 1
        return True

    def _start(self) -> None:
        self._stop_timer()
        if self._keys.is_fetching or self._is_over:
            return
        self._keys.begin(self._env.clock.monotonic_us())
        self._fetched = asyncio.Event()
        self._tasks.start(self._fetch(self._fetched), name="fetch keys")

    async def _fetch(self, fetched: asyncio.Event) -> None:
        clock, terms = self._env.clock, self._terms
        try:
            if terms.keys.path:
                keys = await self._env.cpu.run_waiting(self._read_blocking)
            else:
                data = await fetch(
                    self._env.network,
                    terms.keys,
                    terms.tls,
                    connect_timeout_ms=FETCH_TIMEOUT_MS,
                    read_timeout_ms=FETCH_TIMEOUT_MS,
                )
                keys = await self._env.cpu.run(parse_key_set, data)
        except (FetchError, OSError, ValueError) as error:
            self._keys.on_failed(clock.monotonic_us())
            self._tell(str(error))
        else:
            self._keys.on_fetched(keys, clock.monotonic_us())
            if self._told:
                log.info("the keys of %s have come", terms.keys)
            self._told = ""
        fetched.set()
        self.begin()

    def _read_blocking(self) -> tuple[PublicKey, ...]:
        """Read the file of keys.

        Raises:
            OSError: it cannot be read.
            ValueError: it holds no keys.
        """
        disk, path = self._env.disk, self._terms.keys.path
        size = disk.stat(path).size
        if size > BODY_BYTES_MAX:
            raise ValueError(f"it has {size} bytes, more than {BODY_BYTES_MAX}")
        return parse_key_set(disk.read_file(path))

    def _tell(self, reason: str) -> None:
        now_us = self._env.clock.monotonic_us()
        if reason == self._told and now_us < self._told_until_us:
            return
        self._told, self._told_until_us = reason, now_us + TOLD_AGAIN_US
        state = (
            "those that were fetched before stay in force" if self._keys.are_there else "no token is believed before"
        )
        log.error(
            "the keys of sasl.oauthbearer.jwks.endpoint.url=%s cannot be fetched: %s; %s",
            self._terms.keys,
            reason,
            state,
        )
