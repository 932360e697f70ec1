"""A log-in by an access token goes as with Apache Kafka, message by message, but for what is refused here for a reason."""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeError, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.conformance.test_sasl import Seen, Stranger, plays
from tests.integration.conftest import eventually
from tests.models.access_tokens import AUDIENCE, ISSUER, Provider, first_message, json_text, text_of, wall_ms

PACKAGE = "org.apache.kafka.common.security.oauthbearer."
ALLOWED = "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="
RENEWED_S = 3

RSA, EC, FOREIGN = Provider(), Provider("ES256", kid="key-2"), Provider(serial=1)


def token(provider: Provider = RSA, **changes: Any) -> str:
    return provider.token(wall_ms(), **changes)


def claims(**changes: Any) -> dict[str, Any]:
    return RSA.claims(wall_ms(), **changes)


def now_s() -> int:
    return wall_ms() // 1000


def sends(make: Callable[[], bytes], *after: Callable[[Stranger], object]) -> Callable[[Stranger], None]:
    """Log in by a message that is made when it is sent; the time for which a token counts yet is noted to the minute."""

    def authenticate(stranger: Stranger) -> None:
        stranger.authenticate(make())
        if stranger.seen[-1][1] != "closed":
            name, code, text, lifetime_ms = stranger.seen[-1]
            stranger.seen[-1] = (name, code, text, round(int(str(lifetime_ms)) / 60_000))

    return plays(lambda s: s.handshake("OAUTHBEARER"), authenticate, *after)


def by(make: Callable[[], str], **message: str) -> Callable[[Stranger], None]:
    """Log in by a token, give up where it is refused, and ask for metadata where it is not."""

    def finish(stranger: Stranger) -> None:
        if stranger.last_bytes:
            stranger.seen.append(("challenge", stranger.last_bytes))
            stranger.authenticate(b"\x01")
            stranger.is_closed()
        else:
            stranger.metadata()

    return sends(lambda: first_message(make(), **message), finish)


class Bearer(Stranger):
    """Keeps the last bytes of the mechanism."""

    last_bytes = b""

    def authenticate(self, data: bytes = b"", version: int = 2) -> bytes:
        self.last_bytes = super().authenticate(data, version)
        return self.last_bytes


def raw(message: bytes) -> Callable[[Stranger], None]:
    return sends(lambda: message, Stranger.is_closed)


HEAD = json_text({"alg": "RS256", "kid": RSA.kid})


def payload_of(*, extra: bytes = b"") -> bytes:
    """The claims of a good token as JSON, with more text behind them."""
    return json.dumps(claims()).encode()[:-1] + extra + b"}"


def signed(make: Callable[[], bytes], head: str = HEAD) -> Callable[[], str]:
    """A token whose payload may be anything; its signature is right."""
    return lambda: RSA.sign_texts(head, text_of(make()))


T = "x.y.z"
CASES: dict[str, Callable[[Any], None]] = {
    "good": by(token),
    "good, of another key": by(lambda: token(EC)),
    "good, without the name of its key": by(lambda: RSA.sign(claims(), {"kid": None})),
    "audience in a list": by(lambda: token(aud=["x", AUDIENCE])),
    "scope": by(lambda: token(scope="kafka")),
    "scopes": by(lambda: token(scope=["a", "b"])),
    "scope twice": by(lambda: token(scope=["a", "a"])),
    "blank scope": by(lambda: token(scope=[""])),
    "scope of another kind": by(lambda: token(groups=["a"])),
    "extensions": by(token, extensions="tenant=a b\x01host=h\x01"),
    "bearer in small letters": by(token, scheme="bearer"),
    "odd user": by(lambda: token(sub="a, b=c ä")),
    "own authorization id": by(token, authorization="alice"),
    "another authorization id": by(token, authorization="bob"),
    "ten years": by(lambda: token(exp=now_s() + 315_360_000)),
    "begins soon": by(lambda: token(nbf=now_s() + 20)),
    "begins later": by(lambda: token(nbf=now_s() + 600)),
    "expired": by(lambda: token(exp=now_s() - 10)),
    "expired long ago": by(lambda: token(exp=now_s() - 600)),
    **{f"without {name}": by(lambda name=name: token(**{name: None})) for name in ("sub", "exp", "iat", "iss", "aud")},
    "blank user": by(lambda: token(sub=" ")),
    "user that is no text": by(lambda: token(sub=5)),
    "expiry that is no number": by(lambda: token(exp="soon")),
    "another audience": by(lambda: token(aud="x")),
    "another issuer": by(lambda: token(iss=ISSUER + "x")),
    "foreign key of the same name": by(lambda: token(FOREIGN)),
    "unknown key": by(lambda: RSA.sign(claims(), {"kid": "nope"})),
    "other claims under the signature": by(lambda: RSA.token(wall_ms()).replace(".", f".{json_text(claims())}x.", 1)),
    "algorithm none": by(RSA.unsigned),
    "algorithm HS256 by the public key": by(RSA.signed_by_public_key),
    "algorithm of another hash": by(lambda: RSA.sign(claims(), {"alg": "RS512"})),
    "algorithm unknown": by(lambda: RSA.sign(claims(), {"alg": "X"})),
    "critical extension": by(lambda: RSA.sign(claims(), {"crit": ["x"], "x": 1})),
    "garbage": by(lambda: "garbage"),
    "two parts": by(lambda: "a.b"),
    **{
        f"payload {name}": by(signed(make))
        for name, make in {
            "empty": lambda: b"",
            "no JSON": lambda: b"alice",
            "a list": lambda: b"[1]",
            "null": lambda: b"null",
            "cut": lambda: payload_of()[:-1],
            "nested": lambda: payload_of(extra=b',"x":' + b"[" * 500 + b"]" * 500),
            "with a claim twice": lambda: payload_of(extra=b',"sub":"root"'),
            "with text behind it": lambda: payload_of() + b"x",
            "with an infinite time": lambda: payload_of(extra=b',"nbf":1e999'),
            "with no number": lambda: payload_of(extra=b',"nbf":NaN'),
            "large": lambda: payload_of(extra=b',"x":"' + b"y" * 40_000 + b'"'),
            "of many claims": lambda: payload_of(extra=b"".join(b',"c%d":[]' % number for number in range(3_000))),
        }.items()
    },
    **{
        f"header {head[:20]}": by(signed(payload_of, head))
        for head in (
            *("", "*", text_of(b"RS256"), text_of(b"[]"), text_of(b'{"alg":"RS256","alg":"none","kid":"key-1"}')),
            *(text_of(b'{"alg":"none","alg":"RS256","kid":"key-1"}'), HEAD + "=", HEAD + "==", HEAD + "!"),
        )
    },
    "expiry with a fraction": by(lambda: token(exp=now_s() + 300.5)),
    "issued before 1970": by(lambda: token(iat=-5)),
    "no message": raw(b""),
    "byte 01 first": raw(b"\x01"),
    **{
        f"message {message!r}": raw(message)
        for message in (
            f"y,,\x01auth=Bearer {T}\x01\x01".encode(),
            f"p=tls-unique,,\x01auth=Bearer {T}\x01\x01".encode(),
            f"n,alice,\x01auth=Bearer {T}\x01\x01".encode(),
            f"n,,\x01auth=Bearer {T}\x01".encode(),
            f"n,,\x01auth={T}\x01\x01".encode(),
            b"n,,\x01\x01",
            b"n,,\x01host=h\x01\x01",
            f"n,,\x01auth=Bearer {T}\x01ho-st=h\x01\x01".encode(),
            f"n,,\x01auth=Bearer {T}\x01host=\x01\x01".encode(),
            b"n,,\x01auth=Bearer \x01\x01",
            b"\xff\xfe",
        )
    },
}

STRICTER = {
    "token from the future": by(lambda: token(iat=now_s() + 600, exp=now_s() + 1200)),
    "user with blanks around it": by(lambda: token(sub=" alice ")),
    "user of 2,000 characters": by(lambda: token(sub="a" * 2_000)),
    "payload that is not UTF-8": by(signed(lambda: payload_of(extra=b',"x":"\xff\xfe"'))),
    "payload that is nested 20,000 times": by(
        signed(lambda: payload_of(extra=b',"x":' + b"[" * 20_000 + b"]" * 20_000))
    ),
    "two tokens": sends(lambda: first_message(T, extensions=f"auth=Bearer {token()}\x01")),
    "two extensions of one name": sends(lambda: first_message(token(), extensions="a=b\x01a=c\x01")),
}
"""What Kafka takes."""


class Pair:
    """A node of ours and one of Kafka's, each with a listener whose log-ins count as long as their tokens, and one of seconds."""

    def __init__(self, directory: Path, tools: KafkaTools) -> None:
        keys = directory / "keys.json"
        keys.write_bytes(RSA.key_set(EC))
        self.nodes: list[NodeProcess] = []
        self.ports: list[dict[str, int]] = []
        for name in ("ours", "kafka"):
            ports = {listener: free_port() for listener in ("PLAINTEXT", "LASTING", "RENEWED", "CONTROLLER")}
            settings = settings_of(ports, keys)
            port = ports["PLAINTEXT"]
            made: NodeProcess = Node(directory / name, settings, port)
            if name == "kafka":
                made = RealKafka(directory / name, settings, port, tools=tools.with_options(f"{ALLOWED}file://{keys}"))
            made.format(secrets.token_urlsafe(16))
            self.nodes.append(made)
            self.ports.append(ports)

    def seen(self, play: Callable[[Any], object], listener: str = "LASTING") -> list[list[Seen]]:
        """What a stranger sees of ours, and what of Kafka."""
        found = []
        for ports in self.ports:
            stranger = Bearer(ports[listener])
            with stranger.socket:
                play(stranger)
            found.append(stranger.seen)
        return found


def settings_of(ports: dict[str, int], keys: Path, **changes: str) -> dict[str, str]:
    settings = {
        "listeners": ",".join(f"{listener}://127.0.0.1:{port}" for listener, port in ports.items()),
        "advertised.listeners": ",".join(
            f"{listener}://127.0.0.1:{port}" for listener, port in ports.items() if listener != "CONTROLLER"
        ),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LASTING:SASL_PLAINTEXT,RENEWED:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": "0",
    }
    for listener in ("lasting", "renewed"):
        prefix = f"listener.name.{listener}.oauthbearer."
        settings |= {
            f"{prefix}sasl.jaas.config": f"{PACKAGE}OAuthBearerLoginModule required;",
            f"{prefix}sasl.server.callback.handler.class": f"{PACKAGE}OAuthBearerValidatorCallbackHandler",
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}",
            f"{prefix}sasl.oauthbearer.expected.issuer": ISSUER,
            f"{prefix}sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{prefix}connections.max.reauth.ms": str(RENEWED_S * 1000 if listener == "renewed" else 0),
        }
    return settings | changes


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Iterator[Pair]:
    made = Pair(tmp_path_factory.mktemp("pair"), kafka_tools)
    with made.nodes[0], made.nodes[1]:

        def is_served() -> bool:
            ours, kafka = made.seen(by(token))
            return ours == kafka

        eventually(is_served, 60)
        yield made


@pytest.mark.kafka
@pytest.mark.parametrize("case", CASES)
def test_stranger_sees_the_same(pair: Pair, case: str) -> None:
    ours, kafka = pair.seen(CASES[case])
    assert ours == kafka


@pytest.mark.kafka
@pytest.mark.parametrize("case", STRICTER)
def test_what_is_refused_here_is_taken_by_kafka(pair: Pair, case: str) -> None:
    ours, kafka = pair.seen(STRICTER[case])
    assert ours != kafka
    assert 58 in ours[1] or ours[2][0] == "challenge"
    assert kafka[1][1] == 0
    assert kafka[2:] in ([], [("metadata", 0)])


@pytest.mark.kafka
@pytest.mark.parametrize(
    "play",
    [raw(f"n,,\x01auth=Basic {T}\x01\x01".encode()), by(lambda: token(exp=10**12))],
    ids=["another scheme", "an end after the year 9999"],
)
def test_what_is_a_failure_here_ends_the_connection_of_kafka_in_silence(
    pair: Pair, play: Callable[[Any], object]
) -> None:
    ours, kafka = pair.seen(play)
    assert ("authenticate", 58) in [each[:2] for each in ours]
    assert "closed" in [each[1] for each in kafka]
    assert ("authenticate", 58) not in [each[:2] for each in kafka]


@pytest.mark.kafka
def test_time_of_the_settings_ends_a_log_in_before_its_token(pair: Pair) -> None:
    def play(stranger: Bearer) -> None:
        stranger.handshake("OAUTHBEARER")
        stranger.authenticate(first_message(token(exp=now_s() + 315_360_000)))

    ours, kafka = pair.seen(play, "RENEWED")
    assert ours == kafka
    assert ours[-1][-1] == RENEWED_S * 1000


@pytest.mark.kafka
@pytest.mark.parametrize("is_renewed", [True, False])
def test_end_of_a_token_is_seen_alike(pair: Pair, is_renewed: bool) -> None:
    def play(stranger: Bearer) -> None:
        over = now_s() + 2
        sends(lambda: first_message(token(exp=over)))(stranger)
        eventually(lambda: time.time() > over + 0.2)
        if is_renewed:
            sends(lambda: first_message(token()))(stranger)
        stranger.metadata()

    ours, kafka = pair.seen(play)
    assert ours == kafka
    assert (ours[-1] == ("metadata", "closed")) is not is_renewed


@pytest.mark.kafka
def test_token_of_another_user_renews_nothing(pair: Pair) -> None:
    ours, kafka = pair.seen(plays(by(token), sends(lambda: first_message(token(sub="bob"))), Stranger.is_closed))
    assert ours == kafka
    assert "Cannot change principals" in str(ours)


@pytest.mark.kafka
def test_neither_node_starts_without_keys(tmp_path: Path, kafka_tools: KafkaTools) -> None:
    for name in ("ours", "kafka"):
        ports = {listener: free_port() for listener in ("PLAINTEXT", "LASTING", "RENEWED", "CONTROLLER")}
        given = settings_of(ports, tmp_path)
        settings = {key: value for key, value in given.items() if "jwks" not in key}
        made: NodeProcess = Node(tmp_path / name, settings, ports["PLAINTEXT"])
        if name == "kafka":
            made = RealKafka(tmp_path / name, settings, ports["PLAINTEXT"], tools=kafka_tools)
            made.format(secrets.token_urlsafe(16))
        with pytest.raises(NodeError, match=r"jwks\.endpoint\.url"):
            made.start()
