"""Delegation tokens are made, changed, told and refused as by Apache Kafka, but for what is better for a reason."""

import base64
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kio.schema.create_delegation_token.v3.request import CreatableRenewers
from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenOwner

from esp.authentication.scram import ScramClient
from esp.model.scram import ScramMechanism
from esp.protocol.registry import ApiKey
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.conformance.test_sasl import Stranger
from tests.integration.conftest import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
USERS = ("root", "alice", "bob", "carol")
DAY_MS = 86_400_000


def settings_of(port: int, sasl_port: int) -> dict[str, str]:
    controller = f"127.0.0.1:{free_port()}"
    users = " ".join(f'user_{user}="{user}-secret"' for user in USERS)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},USERS://127.0.0.1:{sasl_port},CONTROLLER://{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
        "delegation.token.secret.key": "the secret of the tokens",
        "listener.name.users.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
    }
    for mechanism in ("scram-sha-256", "scram-sha-512"):
        settings[f"listener.name.users.{mechanism}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    return settings


def some_time_passes() -> None:
    """Wait until the clock on the wall shows a later time than that of the last answer."""
    now_s = time.time()
    while time.time() < now_s + 0.05:
        time.sleep(0.01)


class Side:
    """One of the two nodes, and what its tokens are called in what is compared: the first is token 0."""

    def __init__(self, node: NodeProcess) -> None:
        listeners = node.settings["listeners"].split(",")
        self.ports = {each.partition(":")[0]: int(each.rpartition(":")[2]) for each in listeners}
        self.tokens: list[Any] = []
        self.seen: list[tuple[object, ...]] = []

    def clean(self) -> None:
        """Remove the tokens of earlier plays."""
        for token in self._describe("root", None):
            content = {"hmac": token.hmac, "expiry_time_period": milliseconds(-1)}
            self.ask(token.principal_name, ApiKey.EXPIRE_DELEGATION_TOKEN, 2, **content)
        eventually(lambda: not self._describe("root", None))

    def ask_by_token(self, token: int) -> None:
        """Ask for all about tokens in a session that a token began."""
        hmac, period = self.tokens[token].hmac, milliseconds(-1)
        nothing = {"owner_principal_type": None, "owner_principal_name": None, "renewers": (), "max_lifetime": period}
        for key, content in (
            (ApiKey.CREATE_DELEGATION_TOKEN, nothing),
            (ApiKey.RENEW_DELEGATION_TOKEN, {"hmac": hmac, "renew_period": period}),
            (ApiKey.EXPIRE_DELEGATION_TOKEN, {"hmac": hmac, "expiry_time_period": period}),
            (ApiKey.DESCRIBE_DELEGATION_TOKEN, {"owners": None}),
        ):
            stranger = self._logged_in(token, "SCRAM-SHA-256")
            answer = stranger.call(key, 2 if key is not ApiKey.CREATE_DELEGATION_TOKEN else 3, **content)
            stranger.socket.close()
            self.seen.append((key.name, int(answer.error_code), repr(answer)))

    def client(self, user: str) -> Stranger:
        """A connection of a user; of one without a name at the listener of plaintext."""
        stranger = Stranger(self.ports["USERS" if user else "PLAINTEXT"])
        if user:
            stranger.handshake()
            stranger.authenticate(f"\0{user}\0{user}-secret".encode())
            assert stranger.seen[-1][1] == 0
        return stranger

    def ask(self, user: str, key: ApiKey, version: int, **content: Any) -> Any:
        stranger = self.client(user)
        answer = stranger.call(key, version, **content)
        stranger.socket.close()
        return answer

    def name(self, token_id: str) -> int | str:
        return next((number for number, each in enumerate(self.tokens) if each.token_id == token_id), token_id)

    def create(
        self,
        user: str,
        *renewers: str,
        owner: str | None = None,
        owner_type: str | None = "User",
        lifetime_ms: int = -1,
        version: int = 3,
        kind: str = "User",
    ) -> None:
        """Create a token and wait until it is known: Kafka answers before that."""
        content: dict[str, Any] = {"max_lifetime": milliseconds(lifetime_ms)}
        content["owner_principal_type"] = owner_type if owner is not None else None
        content["owner_principal_name"] = owner
        content["renewers"] = tuple(renewer(kind, each) for each in renewers)
        answer = self.ask(user, ApiKey.CREATE_DELEGATION_TOKEN, version, **content)
        told: list[object] = ["create", int(answer.error_code), answer.principal_type, answer.principal_name]
        told += [answer.token_requester_principal_type, answer.token_requester_principal_name]
        times = [time_ms(each) for each in (answer.issue_timestamp, answer.expiry_timestamp, answer.max_timestamp)]
        told += [times[1] - times[0], times[2] - times[0], bool(answer.token_id), len(answer.hmac)]
        told += [times[0] if times[0] <= 0 else "now"]
        self.seen.append(tuple(told))
        if not answer.error_code:
            self.tokens.append(answer)
            eventually(lambda: answer.token_id in {each.token_id for each in self._describe("root", None)})

    def describe(self, user: str, *owners: str, version: int = 3) -> None:
        found = self._describe(user, [("User", owner) for owner in owners] or None, version)
        self.seen.append(("describe", self._told(found)))

    def describe_none(self, user: str) -> None:
        self.seen.append(("describe none", self._told(self._describe(user, []))))

    def _told(self, tokens: list[Any]) -> object:
        return sorted(
            (
                self.name(each.token_id),
                each.principal_type,
                each.principal_name,
                each.token_requester_principal_name,
                each.hmac == self.tokens[int(self.name(each.token_id))].hmac,
                each.max_timestamp - each.issue_timestamp,
                sorted((renewer.principal_type, renewer.principal_name) for renewer in each.renewers),
            )
            for each in tokens
        )

    def _describe(self, user: str, owners: list[tuple[str, str]] | None, version: int = 3) -> list[Any]:
        asked = None if owners is None else tuple(owner(kind, name) for kind, name in owners)
        answer = self.ask(user, ApiKey.DESCRIBE_DELEGATION_TOKEN, version, owners=asked)
        if answer.error_code:
            self.seen.append(("describe is refused", int(answer.error_code)))
        return list(answer.tokens)

    def renew(self, user: str, token: int, period_ms: int = -1, *, version: int = 2) -> None:
        self.change(user, ApiKey.RENEW_DELEGATION_TOKEN, token, "renew_period", period_ms, version)

    def expire(self, user: str, token: int, period_ms: int = -1, *, version: int = 2) -> None:
        self.change(user, ApiKey.EXPIRE_DELEGATION_TOKEN, token, "expiry_time_period", period_ms, version)

    def change(self, user: str, key: ApiKey, token: int, name: str, period_ms: int, version: int) -> None:
        hmac = self.tokens[token].hmac if token >= 0 else b"an HMAC of no token"
        answer = self.ask(user, key, version, hmac=hmac, **{name: milliseconds(period_ms)})
        expiry_ms = time_ms(answer.expiry_timestamp)
        left_ms = expiry_ms - int(time.time() * 1000)
        told = expiry_ms if expiry_ms <= 0 else round(left_ms / 60_000)
        self.seen.append((key.name, int(answer.error_code), told))
        if not answer.error_code:
            self.wait_for(token, expiry_ms if period_ms >= 0 or key is ApiKey.RENEW_DELEGATION_TOKEN else None)

    def wait_for(self, token: int, expiry_ms: int | None) -> None:
        """Wait until a change of a token is known: Kafka answers before that."""
        token_id = self.tokens[token].token_id

        def is_known() -> bool:
            found = [each.expiry_timestamp for each in self._describe("root", None) if each.token_id == token_id]
            return found == ([] if expiry_ms is None else [expiry_ms])

        eventually(is_known)

    def log_in(self, token: int, mechanism: str = "SCRAM-SHA-256", password: str = "", flag: str = "true") -> None:
        """Log in by a token, and leave."""
        self._logged_in(token, mechanism, password, flag).socket.close()

    def _logged_in(self, token: int, mechanism: str, password: str = "", flag: str = "true") -> Stranger:
        kind = ScramMechanism[mechanism.replace("-", "_")]
        known = self.tokens[token]
        client = ScramClient(
            kind, known.token_id, password or base64.b64encode(known.hmac).decode(), "nonce", is_token=bool(flag)
        )
        stranger = Stranger(self.ports["USERS"])
        stranger.handshake(mechanism)
        challenge = stranger.authenticate(client.first_message())
        lifetime_ms = 0
        if challenge:
            stranger.authenticate(client.on_server_first(challenge))
            lifetime_ms = int(str(stranger.seen[-1][3])) if stranger.seen[-1][1] == 0 else 0
        self.seen.append(("log-in", stranger.seen[-1][1], round(lifetime_ms / 60_000)))
        return stranger


def milliseconds(number: int) -> Any:
    return timedelta(milliseconds=number)


def time_ms(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def renewer(kind: str, name: str) -> Any:
    return CreatableRenewers(principal_type=kind, principal_name=name)


def owner(kind: str, name: str) -> Any:
    return DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools
) -> Iterator[tuple[NodeProcess, NodeProcess]]:
    directory = tmp_path_factory.mktemp("tokens")
    nodes: list[NodeProcess] = []
    for name in ("ours", "kafka"):
        port = free_port()
        settings = settings_of(port, free_port())
        made: NodeProcess = Node(directory / name, settings, port)
        if name == "kafka":
            made = RealKafka(directory / name, settings, port, tools=kafka_tools)
        made.format(secrets.token_urlsafe(16), "--standalone")
        nodes.append(made)
    with nodes[0], nodes[1]:
        yield nodes[0], nodes[1]


Play = Callable[[Side], object]


def plays(*steps: Play) -> Play:
    def play(side: Side) -> None:
        for step in steps:
            step(side)

    return play


HOUR_MS = 3_600_000

PLAYS: dict[str, Play] = {
    "own": plays(lambda s: s.create("alice"), lambda s: s.describe("alice"), lambda s: s.describe("bob")),
    **{
        f"own in version {version}": plays(
            lambda s, version=version: s.create("alice", "bob", version=version),
            lambda s, version=version: s.describe("bob", version=version),
            lambda s, version=changing: s.renew("bob", 0, version=version),
            lambda s, version=changing: s.expire("bob", 0, version=version),
        )
        for version, changing in ((1, 1), (2, 2), (3, 2))
    },
    "lifetimes": plays(
        *(lambda s, ms=ms: s.create("alice", lifetime_ms=ms) for ms in (0, -7, HOUR_MS, 30 * DAY_MS, 2 * DAY_MS))
    ),
    "without a name": plays(lambda s: s.create(""), lambda s: s.describe("")),
    "for another": plays(
        lambda s: s.create("bob", owner="alice"),
        lambda s: s.create("root", owner="alice"),
        lambda s: s.create("root", "carol", owner="alice"),
        lambda s: s.create("alice", owner="alice"),
        lambda s: s.create("alice", owner=""),
        *(lambda s, user=user: s.describe(user) for user in USERS),
    ),
    "owners": plays(
        lambda s: s.create("alice", "carol"),
        lambda s: s.create("bob", "alice"),
        lambda s: s.create("root", owner="carol"),
        *(
            lambda s, user=user, owners=owners: s.describe(user, *owners)
            for user in USERS
            for owners in ((), ("alice",), ("bob", "carol"), ("nobody",))
        ),
        *(lambda s, user=user: s.describe_none(user) for user in ("root", "alice")),
    ),
    "renewers of another kind": plays(lambda s: s.create("alice", "carol", kind="Group")),
    "renewals": plays(
        lambda s: s.create("alice", "bob", lifetime_ms=3 * DAY_MS),
        lambda s: s.create("alice", lifetime_ms=2 * HOUR_MS),
        *(lambda s, ms=ms: s.renew("alice", 0, ms) for ms in (HOUR_MS, 0, 2 * HOUR_MS, 7 * DAY_MS, -5)),
        lambda s: s.renew("bob", 0, HOUR_MS),
        lambda s: s.renew("carol", 0, HOUR_MS),
        lambda s: s.renew("root", 0, HOUR_MS),
        lambda s: s.renew("bob", 1),
        lambda s: s.renew("alice", 1, 5 * HOUR_MS),
        lambda s: s.renew("alice", -1),
    ),
    "expiries": plays(
        lambda s: s.create("alice", "bob"),
        *(lambda s, ms=ms: s.expire("alice", 0, ms) for ms in (HOUR_MS, 3 * DAY_MS, 30 * DAY_MS)),
        *(lambda s, user=user: s.expire(user, 0) for user in ("carol", "root", "bob")),
        lambda s: s.expire("bob", 0),
        lambda s: s.renew("bob", 0),
        lambda s: s.expire("alice", -1),
    ),
    "an end at once": plays(
        lambda s: s.create("alice"),
        lambda s: s.expire("alice", 0, 0),
        lambda _s: some_time_passes(),
        lambda s: s.renew("alice", 0),
        lambda s: s.expire("alice", 0, HOUR_MS),
        lambda s: s.expire("alice", 0, -3),
    ),
    "log-ins": plays(
        lambda s: s.create("alice"),
        lambda s: s.create("root", owner="bob", lifetime_ms=HOUR_MS),
        *(lambda s, mechanism=mechanism: s.log_in(0, mechanism) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")),
        lambda s: s.log_in(1),
        lambda s: s.log_in(1, password="wrong"),
        lambda s: s.log_in(1, flag=""),
        lambda s: s.expire("bob", 1),
        lambda s: s.log_in(1),
    ),
    "with a token": plays(lambda s: s.create("alice"), lambda s: s.ask_by_token(0)),
}


@pytest.mark.parametrize("play", PLAYS)
def test_tokens_are_handled_alike(pair: tuple[NodeProcess, NodeProcess], play: str) -> None:
    ours, kafka = (Side(node) for node in pair)
    for side in (ours, kafka):
        side.clean()
        PLAYS[play](side)
    assert ours.seen == kafka.seen


def test_directories_change_hands_with_their_tokens(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    port = free_port()
    settings = settings_of(port, free_port())
    ours, kafka = Node(tmp_path, settings, port), RealKafka(tmp_path, settings, port, tools=kafka_tools)
    ours.format(secrets.token_urlsafe(16), "--standalone")
    with ours:
        side = Side(ours)
        side.create("alice", "bob")
        side.create("root", owner="carol")
        side.expire("carol", 1)
        side.renew("bob", 0, HOUR_MS)
    with kafka:
        eventually(lambda: len(side._describe("root", None)) == 1, 60)
        side.create("bob", lifetime_ms=HOUR_MS)
        for token in (0, 2):
            side.log_in(token, "SCRAM-SHA-512")
        side.describe("root")
    with ours:
        eventually(lambda: len(side._describe("root", None)) == 2)
        for token in (0, 2, 1):
            side.log_in(token, "SCRAM-SHA-512")
        side.describe("root")
    *_, told_by_kafka, by_one, by_two, by_removed, told_by_ours = side.seen
    assert told_by_ours == told_by_kafka
    assert [each[1] for each in (by_one, by_two, by_removed)] == [0, 0, 58]
