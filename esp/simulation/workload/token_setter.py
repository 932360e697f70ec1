"""A user of delegation tokens: it creates tokens, renews and expires them, asks for those of a user, and logs in by them at any broker."""

import asyncio
import base64
from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, Final

from esp.authentication.scram import ScramClient
from esp.model.delegation_token import DelegationToken, principal_of
from esp.model.errors import ErrorCode
from esp.model.sasl import SaslMechanism
from esp.model.scram import ScramMechanism
from esp.ports.network import Address, Network
from esp.protocol.entity_fields import EPOCH
from esp.protocol.registry import ApiKey
from esp.simulation.checkers import probe
from esp.simulation.checkers.token_checker import IssuedToken, TokenChecker, renewed
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.log_ins import authenticate, choose_mechanism
from esp.simulation.workload.survey_requests import build
from esp.simulation.workload.token_users import OWNERS, STRANGER, password_of

LIFETIMES_MS: Final = (-1, 3_000, 12_000)
PERIODS_MS: Final = (-1, 1_000, 8_000)
PAUSE_S: Final = (0.05, 0.8)
TOKENS_MAX: Final = 4
STRANGER_SHARE: Final = 0.1
_NEW_SHARE: Final = 0.2
_LOG_IN_SHARE: Final = 0.5
_DESCRIBE_SHARE: Final = 0.1
_RENEWED_SHARE: Final = 0.3
SESSION_S: Final = (0.1, 3.0)
"""The time after which a log-in is renewed: as long as some tokens live."""
_TIMEOUT_S: Final = 3.0


class TokenSetter:
    """Asks any broker; each change is tried once.

    A token of which it is not known what became of a change is given up: a broker may still carry the change out, or have carried it out.

    Args:
        name: its name in the trace.
        network: as the client's host sees it.
        addresses: the listeners of brokers where users log in.
        rng: its own stream of randomness.
        history: counts what was done.
        checker: gets what was acknowledged.
        node_at: the node that listens at an address.
        nodes: returns all nodes.
    """

    def __init__(
        self,
        name: str,
        network: Network,
        addresses: Sequence[Address],
        rng: Random,
        history: History,
        checker: TokenChecker,
        node_at: Callable[[str], SimulatedNode],
        nodes: Callable[[], Sequence[SimulatedNode]],
    ) -> None:
        self.is_stopping = False
        self._name = name
        self._network = network
        self._addresses = tuple(addresses)
        self._rng = rng
        self._history = history
        self._checker = checker
        self._node_at = node_at
        self._nodes = nodes
        self._tokens: dict[str, IssuedToken] = {}
        """The tokens of which everything is known; expired and removed ones among them for a while."""
        self._removed: dict[str, None] = {}

    async def run(self) -> None:
        """Change and use tokens until it is to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*PAUSE_S))
            address = self._rng.choice(self._addresses)
            issued = self._rng.choice(list(self._tokens.values())) if self._tokens else None
            try:
                if issued is None or self._rng.random() < _NEW_SHARE:
                    await self._create(address)
                elif self._rng.random() < _LOG_IN_SHARE or issued.token.token_id in self._removed:
                    await self._log_in_by(address, issued)
                elif self._rng.random() < _DESCRIBE_SHARE:
                    await self._describe(address)
                else:
                    await self._change(address, issued)
            except NoAnswerError as error:
                self._history.on_no_answer(self._name, str(error))

    async def _create(self, address: Address) -> None:
        user, lifetime_ms = self._rng.choice(OWNERS), self._rng.choice(LIFETIMES_MS)
        content = {"renewers": [], "max_lifetime": lifetime_ms}
        connection, node = await self._log_in(address, user), self._node_at(address.host)
        loader = probe.metadata_of(node)
        answer = await self._ask(connection, ApiKey.CREATE_DELEGATION_TOKEN, 3, content)
        if answer is None:
            return
        token = DelegationToken(
            token_id=answer.token_id,
            owner=f"User:{user}",
            requester=f"User:{user}",
            renewers=(),
            issue_ms=_time_ms(answer.issue_timestamp),
            max_ms=_time_ms(answer.max_timestamp),
            expiry_ms=_time_ms(answer.expiry_timestamp),
        )
        if lifetime_ms > 0 and token.max_ms - token.issue_ms > lifetime_ms:
            raise ViolationError("INV-CREDENTIAL", node.name, f"{token} may live for longer than {lifetime_ms} ms")
        issued = self._tokens[token.token_id] = IssuedToken(token, base64.b64encode(answer.hmac).decode())
        for oldest in list(self._tokens)[:-TOKENS_MAX]:
            self._give_up(oldest)
        self._history.on_done(self._name, "tokens created", token.token_id)
        self._checker.on_changed(node, loader, issued, self._nodes())

    async def _change(self, address: Address, issued: IssuedToken) -> None:
        """Renew a token, or expire it; a user without that right tries it now and then."""
        token, rng = issued.token, self._rng
        key = rng.choice((ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN))
        period, period_ms = (
            ("expiry_time_period", "renew_period")[key is ApiKey.RENEW_DELEGATION_TOKEN],
            rng.choice(PERIODS_MS),
        )
        is_removal = key is ApiKey.EXPIRE_DELEGATION_TOKEN and period_ms < 0
        is_stranger = rng.random() < STRANGER_SHARE
        user = STRANGER if is_stranger else token.owner.partition(":")[2]
        connection, node = await self._log_in(address, user), self._node_at(address.host)
        if not is_stranger:
            self._checker.forget(token.token_id)  # until the answer says what became of it
            self._tokens.pop(token.token_id)
        loader = probe.metadata_of(node)
        content = {"hmac": base64.b64decode(issued.password), period: period_ms}
        answer = None
        try:
            answer = await self._ask(connection, key, 2, content)
        finally:
            if answer is None and not is_stranger:
                note(Excuse.UNANSWERED_TOKENS)
        if answer is None:
            return
        if is_stranger:
            raise ViolationError("INV-CREDENTIAL", node.name, f"a stranger has changed the token {token.token_id}")
        changed = issued if is_removal else renewed(issued, _time_ms(answer.expiry_timestamp))
        self._tokens[token.token_id] = changed
        if is_removal:
            self._removed[token.token_id] = None
        self._history.on_done(self._name, f"tokens {'removed' if is_removal else 'changed'}", token.token_id)
        self._checker.on_changed(node, loader, changed, self._nodes(), is_removed=is_removal)

    async def _describe(self, address: Address) -> None:
        """Ask for all tokens that an owner may see, and hold the node to the answer."""
        user = self._rng.choice(OWNERS)
        connection, node = await self._log_in(address, user), self._node_at(address.host)
        process, own = node.process, [each for each in self._tokens.values() if each.token.owner == f"User:{user}"]
        before = [self._checker.counts_at(node, each.token.token_id) for each in own]
        answer = await self._ask(connection, ApiKey.DESCRIBE_DELEGATION_TOKEN, 3, {"owners": None})
        if answer is None or node.process is not process:
            return
        self._history.on_done(self._name, "tokens described", user)
        described = [_described(each) for each in answer.tokens]
        living = [each for each, counts in zip(own, before, strict=True) if counts]
        self._checker.on_described(node, living, described)

    async def _log_in_by(self, address: Address, issued: IssuedToken) -> None:
        """Try a token, and now and then renew the log-in on the same connection after a while (KIP-368)."""
        node, mechanism = self._node_at(address.host), self._rng.choice(list(ScramMechanism))
        connection = await ClientConnection.open(self._network, address, self._name)
        try:
            if await self._is_let_in(connection, node, issued, mechanism) and self._rng.random() < _RENEWED_SHARE:
                await asyncio.sleep(self._rng.uniform(*SESSION_S))
                await self._is_let_in(connection, node, issued, mechanism)
        finally:
            connection.close()

    async def _is_let_in(
        self, connection: ClientConnection, node: SimulatedNode, issued: IssuedToken, mechanism: ScramMechanism
    ) -> bool:
        """Log in by a token, and hold the node to the answer. Raises NoAnswerError."""
        token_id = issued.token.token_id
        process, before = node.process, self._checker.counts_at(node, token_id)
        wall_ms, shift_ms = node.clock.wall_ms(), node.clock.wall_shift_ms + node.clock.lapse_ms
        client = ScramClient(mechanism, token_id, issued.password, f"{self._rng.random()}", is_token=True)
        await choose_mechanism(connection, mechanism.sasl_name)
        challenge = await authenticate(connection, client.first_message())
        answer = await authenticate(connection, client.on_server_first(challenge.auth_bytes))
        is_in: bool = answer.error_code is ErrorCode.none
        self._history.on_done(self._name, f"log-ins by tokens {'let in' if is_in else 'refused'}", token_id)
        if node.process is process:
            expected = before, self._checker.counts_at(node, token_id)
            self._checker.on_log_in(node, token_id, expected, is_in=is_in)
            left_ms = min(issued.token.expiry_ms, issued.token.max_ms) - wall_ms
            lifetime_ms = answer.session_lifetime / timedelta(milliseconds=1)
            has_jumped = node.clock.wall_shift_ms + node.clock.lapse_ms != shift_ms
            if is_in and not has_jumped and None not in expected and not 0 < lifetime_ms <= left_ms:
                raise ViolationError(
                    "INV-CREDENTIAL",
                    node.name,
                    f"a session by a token that ends in {left_ms} ms is to last {lifetime_ms} ms",
                )
        return is_in

    async def _log_in(self, address: Address, user: str) -> ClientConnection:
        """A connection of a user that logs in by PLAIN. Raises NoAnswerError."""
        connection = await ClientConnection.open(self._network, address, self._name)
        await choose_mechanism(connection, SaslMechanism.PLAIN.value)
        answer = await authenticate(connection, f"\0{user}\0{password_of(user)}".encode())
        assert answer.error_code is ErrorCode.none, "the password is right"
        return connection

    async def _ask(self, connection: ClientConnection, key: ApiKey, version: int, content: dict[str, Any]) -> Any:
        """The answer to one request of a connection, None if it is a refusal. Raises NoAnswerError."""
        try:
            answer = await connection.call(key, version, build(key, version, content), _TIMEOUT_S)
        finally:
            connection.close()
        if answer.error_code is ErrorCode.none:
            return answer
        self._history.on_refusal(self._name, answer.error_code.name)
        return None

    def _give_up(self, token_id: str) -> None:
        del self._tokens[token_id]
        self._removed.pop(token_id, None)
        self._checker.forget(token_id)


def _described(entry: Any) -> IssuedToken:
    token = DelegationToken(
        token_id=entry.token_id,
        owner=principal_of(entry.principal_type, entry.principal_name),
        requester=principal_of(entry.token_requester_principal_type, entry.token_requester_principal_name),
        renewers=tuple(principal_of(each.principal_type, each.principal_name) for each in entry.renewers),
        issue_ms=entry.issue_timestamp,
        max_ms=entry.max_timestamp,
        expiry_ms=entry.expiry_timestamp,
    )
    return IssuedToken(token, base64.b64encode(entry.hmac).decode())


def _time_ms(moment: Any) -> int:
    time_ms: int = (moment - EPOCH) // timedelta(milliseconds=1)
    return time_ms
