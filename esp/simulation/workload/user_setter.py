"""An administrator of users: it adds them, gives them other passwords and removes them; a removed one may come again."""

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.model.scram import MIN_ITERATIONS, ScramMechanism
from esp.model.scram_keys import credential_of, salted_password
from esp.protocol.registry import ApiKey
from esp.simulation.checkers import probe
from esp.simulation.checkers.credential_checker import CredentialChecker, Key, Password
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PAUSE_S: Final = (0.1, 3.0)
USERS: Final = tuple("abcdefgh")
TOGETHER_MAX: Final = 3
"""Users of one request, which change together."""
REMOVED_SHARE: Final = 0.4
"""The share of the changes, of users that are there, that are removals."""
_TIMEOUT_S: Final = 10.0
_VERSION: Final = 0


class UserSetter:
    """Asks any broker; each change is tried once.

    A user of which it is not known what became of a change is given up, and another name takes its place: a broker may still carry the
    change out, or have carried it out.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: gets what was acknowledged.
        node_at: the node that listens at an address.
        nodes: returns all nodes.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        checker: CredentialChecker,
        node_at: Callable[[str], SimulatedNode],
        nodes: Callable[[], Sequence[SimulatedNode]],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._nodes = nodes
        self._names = list(USERS)
        self._present: set[Key] = set()
        self._passwords = 0
        self._given_up = 0

    async def run(self) -> None:
        """Change users until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            changes = self._draw()
            try:
                if not await self._change(changes):
                    self._give_up(changes)
            except NoAnswerError as error:
                self._give_up(changes)
                self._history.on_no_answer(self._client.name, str(error))

    async def _change(self, changes: dict[Key, Password | None]) -> bool:
        """Ask for changes; False if one was refused."""
        content = {
            "deletions": [
                {"name": user, "mechanism": mechanism}
                for (user, mechanism), password in changes.items()
                if password is None
            ],
            "upsertions": [
                {
                    "name": user,
                    "mechanism": mechanism,
                    "iterations": password.credential.iterations,
                    "salt": password.credential.salt,
                    "salted_password": _salted(mechanism, password.text, password.credential.salt),
                }
                for (user, mechanism), password in changes.items()
                if password is not None
            ],
        }
        self._checker.forget(changes)  # until the answer says what became of them
        connection = await self._client.any_broker()
        node = self._node_at(connection.address.host)
        loader = probe.metadata_of(node)
        key = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
        answer: Any = await connection.call(key, _VERSION, build(key, _VERSION, content), _TIMEOUT_S)
        failed = [result.error_code for result in answer.results if result.error_code is not ErrorCode.none]
        if failed:
            self._history.on_refusal(self._client.name, failed[0].name)
            return False
        self._history.on_done(self._client.name, "users changed", ", ".join(user for user, _ in changes))
        self._present -= changes.keys()
        self._present |= {each for each, password in changes.items() if password is not None}
        self._checker.on_changed(node, loader, changes, self._nodes())
        return True

    def _draw(self) -> dict[Key, Password | None]:
        users = self._rng.sample(self._names, self._rng.randint(1, TOGETHER_MAX))
        changes: dict[Key, Password | None] = {}
        for user in users:
            key = user, self._rng.choice(list(ScramMechanism))
            is_removed = key in self._present and self._rng.random() < REMOVED_SHARE
            changes[key] = None if is_removed else self._new_password(key[1])
        return changes

    def _new_password(self, mechanism: ScramMechanism) -> Password:
        self._passwords += 1
        text, salt = f"password {self._passwords}", self._rng.randbytes(16)
        return Password(text, credential_of(mechanism, _salted(mechanism, text, salt), salt, MIN_ITERATIONS))

    def _give_up(self, changes: dict[Key, Password | None]) -> None:
        for user, _ in changes:
            note(Excuse.UNANSWERED_USERS)
            self._given_up += 1
            self._names[self._names.index(user)] = f"{user[0]}{self._given_up}"
            self._checker.forget([(user, mechanism) for mechanism in ScramMechanism])


def _salted(mechanism: ScramMechanism, text: str, salt: bytes) -> bytes:
    return salted_password(mechanism, text, salt, MIN_ITERATIONS)
