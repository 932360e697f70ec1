"""The parts that all listeners with SASL of one kind share: credentials, keys, delays of failures, memory, threads that check passwords."""

import importlib
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from esp.authentication.conversation import Conversation, Ending
from esp.authentication.credentials import CredentialLookup, NoCredentials
from esp.authentication.exchange import Check, KeyWait, NewTokenWait
from esp.authentication.failure_delays import FailureDelays
from esp.broker.authentication.image_credentials import ImageCredentials
from esp.broker.authentication.image_tokens import token_credentials
from esp.broker.authentication.password_checks import PasswordChecks
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.tasks import Tasks
from esp.broker.turns.request_memory import RequestMemory
from esp.controller.image import ClusterImage
from esp.model.delegation_terms import DelegationTerms
from esp.model.sasl import SaslPolicy
from esp.ports.env import Env
from esp.ports.random import random_bytes

if TYPE_CHECKING:
    from esp.broker.authentication.provider_keys import ProviderKeys

_PROVIDER_KEYS: Final = "esp.broker.authentication.provider_keys"  # loaded only where a listener takes tokens

UNKNOWN_BYTES_MAX: Final = 64 * 1024 * 1024
"""Memory for the large frames of all clients that are not authenticated yet; those of known mechanisms are small."""

CHECKED_AT_A_TIME: Final = 1
"""A flood of log-ins by PLAIN with hashed passwords takes one processor, and not the loop's."""

_NONCE_BYTES: Final = 20

_LOOKS_FOR_TOKEN_MS: Final = (5, 10, 20, 40, 80, 160)
"""The pauses before the looks for a token that another node may have made just now. Metadata take some milliseconds to the other nodes."""


class LoginParts:
    """They belong to a server (:class:`esp.broker.connections.server.Server`).

    Args:
        env: the outside.
        dispatcher: answers ApiVersions requests.
    """

    def __init__(self, env: Env, dispatcher: Dispatcher) -> None:
        self.env = env
        self.dispatcher = dispatcher
        self.tasks = Tasks(env.host)
        self.checks = PasswordChecks(env.cpu, CHECKED_AT_A_TIME)
        self.memory = RequestMemory(UNKNOWN_BYTES_MAX)
        self.counts: Counter[tuple[str, str, bool]] = Counter()
        """The log-ins that have ended, renewals too, by listener, mechanism, and whether they succeeded."""
        self._delays = FailureDelays()
        self._secret = random_bytes(env.random, 32)
        self._lookup = CredentialLookup(NoCredentials(), self._secret)
        self._keys: dict[str, ProviderKeys] = {}
        """The keys of listeners that take tokens, by their names."""

    def prepare_blocking(self, policy: SaslPolicy) -> None:
        """Make ready for the clients of a listener, which is bound after that.

        Raises:
            OperatorError: a file of keys cannot be used.
        """
        if policy.oauth is not None:
            kind = importlib.import_module(_PROVIDER_KEYS).ProviderKeys
            keys = self._keys[policy.listener] = kind(self.env, policy.oauth, self.tasks)
            keys.read_file_blocking()
            keys.begin()

    def follow(self, image: Callable[[], ClusterImage], tokens: DelegationTerms) -> None:
        """Use the credentials and tokens that stand in the metadata, from now on: the newest that this node knows of.

        Connections may have been made before that: they are served after it.
        """
        self._lookup.use(
            ImageCredentials(image), token_credentials(image, self.env.clock.wall_ms, tokens, self._secret)
        )

    def conversation(self, policy: SaslPolicy) -> Conversation:
        """Return the state of a new connection."""
        keys = self._keys.get(policy.listener)
        return Conversation(policy, self._lookup, self._make_nonce, None if keys is None else keys.exchange)

    async def check(self, check: Check, policy: SaslPolicy, host: str, is_wanted: Callable[[], bool]) -> bool:
        """Return the result of a check that an exchange asks for.

        Args:
            check: the check.
            policy: the terms of the client's listener.
            host: the client's address.
            is_wanted: False when its connection has ended.
        """
        if isinstance(check, KeyWait):
            return await self._keys[policy.listener].wait_for_new()
        if isinstance(check, NewTokenWait):
            return await self._wait_for(check, is_wanted)
        return await self.checks.run(host, check.is_right, is_wanted)

    async def _wait_for(self, token: NewTokenWait, is_wanted: Callable[[], bool]) -> bool:
        """Return True as soon as this node knows a token; False if it does not come in time, or its connection has ended."""
        for pause_ms in _LOOKS_FOR_TOKEN_MS:
            await self.env.clock.sleep_us(pause_ms * 1000)
            if token.is_known() or not is_wanted():
                break
        return token.is_known()

    def on_log_in(self, policy: SaslPolicy, conversation: Conversation) -> None:
        """Count a log-in that succeeded."""
        self._count(policy, conversation, succeeded=True)

    def failure_delay_us(self, host: str, policy: SaslPolicy, conversation: Conversation, ending: Ending) -> int:
        """Count a failed log-in from an address, and return the time after which it is answered.

        Args:
            host: the address.
            policy: the terms of the client's listener.
            conversation: the state of its connection.
            ending: of the reply that tells the failure.
        """
        self._count(policy, conversation, succeeded=False)
        now_us = self.env.clock.monotonic_us()
        is_malformed = ending is Ending.SOON
        return self._delays.on_failure(host, now_us, policy.failure_delay_ms, is_malformed=is_malformed) * 1000

    async def close(self) -> None:
        """End what is at work for log-ins."""
        for keys in self._keys.values():
            keys.end()
        await self.tasks.stop()

    def _count(self, policy: SaslPolicy, conversation: Conversation, *, succeeded: bool) -> None:
        mechanism = conversation.mechanism
        self.counts[policy.listener, "none" if mechanism is None else mechanism.value, succeeded] += 1

    def _make_nonce(self) -> str:
        return random_bytes(self.env.random, _NONCE_BYTES).hex()
