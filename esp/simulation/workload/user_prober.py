"""A client that tries passwords of users at any broker: the present ones, former ones, those of users that were removed, and wrong ones."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from esp.authentication.scram import ScramClient
from esp.model.errors import ErrorCode
from esp.ports.network import Address, Network
from esp.simulation.checkers import probe
from esp.simulation.checkers.credential_checker import CredentialChecker, Key
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.log_ins import authenticate, choose_mechanism

PAUSE_S: Final = (0.02, 0.6)
WRONG_SHARE: Final = 0.1
"""The share of the log-ins by a password that no user ever had."""
SLOW_SHARE: Final = 0.3
"""The share of the log-ins in which the proof comes a while after the challenge."""
BETWEEN_S: Final = (0.05, 2.0)
"""The while between challenge and proof, in seconds: users are changed meanwhile."""
RENEWED_SHARE: Final = 0.5
"""The share of the log-ins, of those that count for a limited time, that are renewed on the connection."""
SESSION_S: Final = (0.1, 3.0)


class UserProber:
    """Logs in by SCRAM over the network, and holds the node to what was acknowledged to the administrator of users.

    Args:
        name: its name in the trace.
        network: as the client's host sees it.
        addresses: the listeners of brokers where users log in.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: knows the passwords, and judges the answers.
        node_at: the node that listens at an address.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        addresses: Sequence[Address],
        rng: Random,
        history: History,
        checker: CredentialChecker,
        node_at: Callable[[str], SimulatedNode],
    ) -> None:
        self.is_stopping = False
        self._name = name
        self._network = network
        self._addresses = tuple(addresses)
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at

    async def run(self) -> None:
        """Log in until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            passwords = self._checker.passwords
            if not passwords:
                continue
            key, text = self._rng.choice(passwords)
            if self._rng.random() < WRONG_SHARE:
                text = f"not {text}"
            try:
                await self._try(self._rng.choice(self._addresses), key, text)
            except NoAnswerError as error:
                self._history.on_no_answer(self._name, str(error))

    async def _try(self, address: Address, key: Key, text: str) -> None:
        """Log in, and now and then renew the log-in on the same connection after a while (KIP-368). Raises NoAnswerError."""
        connection = await ClientConnection.open(self._network, address, self._name)
        try:
            lifetime_s = await self._log_in(connection, key, text)
            if lifetime_s and self._rng.random() < RENEWED_SHARE:
                await asyncio.sleep(self._rng.uniform(*SESSION_S))
                await self._log_in(connection, key, text)
        finally:
            connection.close()

    async def _log_in(self, connection: ClientConnection, key: Key, text: str) -> float:
        """Log in and return the seconds for which that counts, 0 for no limit or a refusal. Raises NoAnswerError."""
        (user, mechanism), rng, node = key, self._rng, self._node_at(connection.address.host)
        loader = probe.metadata_of(node)
        before = self._checker.counts_at(node, key, text)
        client = ScramClient(mechanism, user, text, f"{rng.random()}")
        await choose_mechanism(connection, mechanism.sasl_name)
        challenge = await authenticate(connection, client.first_message())
        if rng.random() < SLOW_SHARE:
            await asyncio.sleep(rng.uniform(*BETWEEN_S))
        at_proof = self._checker.counts_at(node, key, text)
        answer = await authenticate(connection, client.on_server_first(challenge.auth_bytes))
        is_in = answer.error_code is ErrorCode.none
        if is_in:
            client.on_server_final(answer.auth_bytes)
        self._history.on_done(self._name, f"log-ins {'let in' if is_in else 'refused'}", user)
        if loader is not None and probe.metadata_of(node) is loader:
            looks = before, at_proof, self._checker.counts_at(node, key, text)
            self._checker.on_log_in(node.name, key, looks, is_in=is_in)
        lifetime_s: float = answer.session_lifetime.total_seconds()
        return lifetime_s if is_in else 0.0
