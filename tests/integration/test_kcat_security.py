"""kcat over TLS and with log-ins: as a user of a shell writes them, on listeners of each kind; and what it says when it is refused.

kcat of Debian 12 (librdkafka 2.0.2) lacks two things. It is built without OIDC: it gets no token from a provider, and what it has for
OAUTHBEARER are tokens that nobody has signed. And its SCRAM repeats a nonce, which Kafka 4 refuses too (librdkafka#4895, CVE-2024-56128).
"""

import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.node import Node
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.test_oauthbearer import TokenNode
from tests.integration.test_sasl import MECHANISMS, PLAIN_MODULE
from tests.models.certificates import Authority

pytestmark = [
    pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat on the PATH (Debian: kcat)"),
    pytest.mark.timeout(180),
]

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "alice's; with blanks"
PROTOCOLS = {"TLS": "ssl", "MUTUAL": "ssl", "LOGIN": "sasl_ssl", "OPEN": "sasl_plaintext"}
"""The protocol of each listener."""


def librdkafka_of_kcat() -> tuple[int, ...]:
    """The version of the library, by what kcat says of itself."""
    done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"librdkafka (\d+)\.(\d+)\.(\d+)", done.stdout + done.stderr)
    assert found is not None, done.stdout
    return tuple(map(int, found.groups()))


IS_OLD = shutil.which("kcat") is not None and librdkafka_of_kcat() < (2, 6, 1)
needs_newer = pytest.mark.skipif(IS_OLD, reason="SCRAM of librdkafka before 2.6.1 repeats a nonce")
RECORDS = [f"k{number % 5}:value {number}" for number in range(500)]


def kcat(options: Mapping[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    settings = [word for name, value in options.items() for word in ("-X", f"{name}={value}")]
    return subprocess.run(
        ["kcat", *arguments, *settings], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )


def said(options: Mapping[str, str], *arguments: str, stdin: str = "") -> str:
    done = kcat(options, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Listeners:
    """A node with a listener of each kind, and an authorizer that lets alice do everything and bob nothing."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.trusted = authority.write_pem(directory / "ca.pem")
        self.certificate = authority.issue("CN=alice", hosts=()).write_pem(directory / "alice.pem")
        self.bob = authority.issue("CN=bob", hosts=()).write_pem(directory / "bob.pem")
        self.stranger = Authority().issue("CN=alice", hosts=()).write_pem(directory / "stranger.pem")
        ports = {name: free_port() for name in PROTOCOLS}
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        protocols = ",".join(f"{name}:{protocol.upper()}" for name, protocol in PROTOCOLS.items())
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        users = f'{PLAIN_MODULE} required user_alice="{PASSWORD}";'
        self.node = Node(
            directory / "node",
            {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:0",
                "inter.broker.listener.name": "MUTUAL",
                "listener.security.protocol.map": f"{protocols},CONTROLLER:PLAINTEXT",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(authority.issue("CN=node").write_pem(directory / "node.pem")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.trusted),
                "listener.name.mutual.ssl.client.auth": "required",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "listener.name.login.plain.sasl.jaas.config": users,
                "listener.name.open.plain.sasl.jaas.config": users,
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:node;User:alice;User:ANONYMOUS",
            },
            ports["TLS"],
        )
        self.node.format(
            secrets.token_urlsafe(16),
            "--standalone",
            *(f"--add-scram={each}=[name=alice,password={PASSWORD}]" for each in MECHANISMS if each != "PLAIN"),
        )

    def options(self, listener: str, mechanism: str | None = None, password: str = PASSWORD) -> dict[str, str]:
        options = {
            "bootstrap.servers": self.addresses[listener],
            "security.protocol": PROTOCOLS[listener],
            "ssl.ca.location": str(self.trusted),
        }
        if listener == "MUTUAL":
            options |= {"ssl.certificate.location": str(self.certificate), "ssl.key.location": str(self.certificate)}
        if mechanism is not None:
            options |= {"sasl.mechanism": mechanism, "sasl.username": "alice", "sasl.password": password}
        return options


@pytest.fixture(scope="module")
def listeners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Listeners]:
    made = Listeners(tmp_path_factory.mktemp("listeners"))
    with made.node:
        yield made


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        ("TLS", None),
        ("MUTUAL", None),
        ("LOGIN", "PLAIN"),
        ("OPEN", "PLAIN"),
        *(pytest.param("LOGIN", mechanism, marks=needs_newer) for mechanism in SCRAM),
        *(pytest.param("OPEN", mechanism, marks=needs_newer) for mechanism in SCRAM),
    ],
)
def test_kcat_writes_and_reads_alone_and_in_a_group(
    listeners: Listeners, listener: str, mechanism: str | None, topic: str
) -> None:
    options = listeners.options(listener, mechanism)
    said(options, "-P", "-t", topic, "-K", ":", "-X", "enable.idempotence=true", stdin="\n".join(RECORDS))
    read = ("-f", "%k:%s\n", "-q", "-e")
    assert said(options, "-C", "-t", topic, "-o", "beginning", *read).splitlines() == RECORDS
    reset = ("-X", "auto.offset.reset=earliest")
    assert said(options, "-G", f"of-{topic}", *reset, *read, topic).splitlines() == RECORDS
    assert f'topic "{topic}" with 1 partitions' in said(options, "-L", "-t", topic)


def test_kcat_says_that_a_password_is_wrong(listeners: Listeners) -> None:
    done = kcat(listeners.options("LOGIN", "PLAIN", "wrong"), "-L", "-m", "3")
    assert done.returncode == 1
    assert "SASL authentication error: Authentication failed: Invalid username or password" in done.stderr
    eventually(lambda: "by PLAIN: wrong password, or no such user: 'alice'" in listeners.node.output)


@pytest.mark.skipif(not IS_OLD, reason="its SCRAM is right")
@pytest.mark.parametrize("mechanism", SCRAM)
def test_a_nonce_that_is_repeated_is_refused_and_the_log_says_what_to_do(listeners: Listeners, mechanism: str) -> None:
    done = kcat(listeners.options("LOGIN", mechanism), "-L", "-m", "3")
    assert done.returncode == 1
    assert f"invalid credentials with SASL mechanism {mechanism}" in done.stderr
    line = (
        f"by {mechanism}: the last message of the user 'alice' has another nonce, as librdkafka before 2.6.1 sends it"
    )
    eventually(lambda: line in listeners.node.output)


def test_kcat_says_that_its_certificate_or_the_nodes_is_refused(listeners: Listeners) -> None:
    options = listeners.options("MUTUAL")
    without = {name: value for name, value in options.items() if not name.startswith(("ssl.cert", "ssl.key"))}
    stranger = {"ssl.certificate.location": str(listeners.stranger), "ssl.key.location": str(listeners.stranger)}
    for refused, logged in (
        (without, "it showed no certificate"),
        (options | stranger, "its certificate is refused"),
    ):
        done = kcat(refused, "-L", "-m", "3")
        assert done.returncode == 1
        assert "FAIL" in done.stderr
        eventually(lambda words=logged: words in listeners.node.output)
    done = kcat(options | {"ssl.ca.location": str(listeners.stranger)}, "-L", "-m", "3")
    assert "certificate verify failed" in done.stderr


def test_kcat_says_that_a_topic_is_denied(listeners: Listeners, topic: str) -> None:
    alice = listeners.options("LOGIN", "PLAIN")
    said(alice, "-P", "-t", topic, stdin="a")
    denied = listeners.options("MUTUAL") | {
        "ssl.certificate.location": str(listeners.bob),
        "ssl.key.location": str(listeners.bob),
    }
    for arguments, stdin in ((("-C", "-t", topic, "-o", "beginning", "-e"), ""), (("-P", "-t", topic), "b")):
        done = kcat(denied, *arguments, stdin=stdin)
        assert done.returncode == 1
        assert "Broker: Topic authorization failed" in done.stderr


def test_tokens_of_kcat_that_nobody_has_signed_are_refused(tmp_path: Path) -> None:
    with TokenNode(tmp_path) as node:
        options = {
            "bootstrap.servers": node.addresses["SASL_SSL"],
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "sasl.mechanism": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": "principal=alice",
        }
        done = kcat(options, "-L", "-m", "3")
        assert done.returncode == 1
        assert "SASL authentication error" in done.stderr
        assert "invalid_token" in done.stderr
        eventually(lambda: "its algorithm is 'none'" in node.process.output)


def test_kcat_gets_no_token_from_a_provider() -> None:
    done = kcat({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc"}, "-L", "-b", "127.0.0.1:1")
    assert "not supported in this build" in done.stderr, "let it log in then, as librdkafka does in test_oauthbearer.py"
