"""A node that ends by a bug or a signal, with all that Python says of a crash switched on, leaves no secret in its output or its files."""

import base64
import os
import re
import secrets
import signal
import ssl
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pytest

from esp.testing.node import Node
from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.crashing_node import CRASH
from tests.integration.wire import Wire
from tests.models.certificates import Authority

pytestmark = pytest.mark.timeout(240)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
EX_SOFTWARE = 70
LEAST = 12
"""The length from which a line of a key cannot stand somewhere by chance."""


class CrashingNode(Node):
    """A node with bugs (:mod:`tests.integration.crashing_node`), in Python's development mode: its loop tells of each slow callback, and
    what all threads did when a signal ended it."""

    PROGRAM: ClassVar[Sequence[str]] = ("-X", "dev", "-m", "tests.integration.crashing_node")


class Secrets:
    """A node with secrets of every kind, which clients have shown to it, and their bytes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        authority = Authority()
        issued = authority.issue("CN=node")
        self._tls = ssl.create_default_context(cadata=authority.pem)
        names = (
            *("the password of alice", "a wrong password", "the password of bob"),
            *("the password of the key", "the secret of tokens", "what a callback has", "what a thread has"),
        )
        self.by_name = {name: secrets.token_urlsafe(24) for name in names}
        for name in ("what a callback has", "what a thread has"):
            self.by_name[name] += CRASH
        key_pem = issued.key_pem()
        encrypted = issued.key_pem(self.by_name["the password of the key"])
        for number, line in enumerate((key_pem + encrypted).splitlines()):
            if len(line) >= LEAST and "-----" not in line:
                self.by_name[f"line {number} of the key"] = line
        of_alice, of_bob = self.by_name["the password of alice"], self.by_name["the password of bob"]
        self.ports = {name: free_port() for name in ("FILE", "SCRAM")}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in self.ports.items())
        (directory / "node").mkdir()
        self.node = CrashingNode(
            directory / "node" / "data",
            {
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "FILE:SASL_SSL,SCRAM:SASL_SSL,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "FILE",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
                "listener.name.file.plain.sasl.jaas.config": (
                    f'{PLAIN} username="alice" password="{of_alice}" user_alice="{of_alice}";'
                ),
                "listener.name.scram.sasl.plain.credentials": "scram",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.key": encrypted.strip(),
                "ssl.keystore.certificate.chain": issued.certificate_pem.strip(),
                "ssl.key.password": self.by_name["the password of the key"],
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": authority.pem.strip(),
                "delegation.token.secret.key": self.by_name["the secret of tokens"],
            },
            self.ports["SCRAM"],
        )
        self.node.format(
            secrets.token_urlsafe(16),
            "--standalone",
            f"--add-scram=SCRAM-SHA-512=[name=bob,password={of_bob}]",
        )
        authority.write_pem(directory / "ca.pem")

    def log_in(self, listener: str, user: str, secret: str) -> None:
        with Wire(self.node, 60, port=self.ports[listener], tls=self._tls) as wire:
            wire.log_in(user, self.by_name[secret])

    def use(self) -> None:
        """Show the node all of them, a token too."""
        self.log_in("FILE", "alice", "the password of alice")
        self.log_in("SCRAM", "bob", "the password of bob")
        for listener, user in (("FILE", "alice"), ("SCRAM", "bob"), ("SCRAM", "nobody")):
            with suppress(PermissionError):
                self.log_in(listener, user, "a wrong password")
        password = self.by_name["the password of bob"]
        by_password = f'sasl.jaas.config={SCRAM} username="bob" password="{password}";'
        by_token = self._run("tokens", "create", log_in=by_password)
        hmac = re.search(r'password="([^"]+)"', by_token)
        assert hmac is not None, by_token
        self.by_name["the password of the token"] = hmac[1]
        self._run("topics", "--list", log_in=by_token)

    def _run(self, *arguments: str, log_in: str) -> str:
        """Run a command with the lines of a log-in among its settings."""
        config = self._directory / "client.properties"
        config.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
            f"ssl.truststore.location={self._directory / 'ca.pem'}\n{log_in}\n"
        )
        config.chmod(0o600)
        settings = {"ESP_BOOTSTRAP_SERVER": f"127.0.0.1:{self.ports['SCRAM']}", "ESP_COMMAND_CONFIG": str(config)}
        command = [sys.executable, "-m", "esp", *arguments]
        done = subprocess.run(
            command, env=os.environ | settings, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def left(self) -> list[tuple[str, str]]:
        """The files of the node in which a secret stands, as it is or in another writing, with the secret's name."""
        found = []
        for path in sorted((self._directory / "node").rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                found += [
                    (path.name, name)
                    for name, secret in self.by_name.items()
                    if any(each in content for each in writings(secret))
                ]
        return found


def writings(secret: str) -> list[bytes]:
    """The bytes of a secret as text, in base64 and in hexadecimal digits, and what base64 stands for."""
    data = secret.encode()
    decoded = []
    with suppress(ValueError):
        decoded = [base64.b64decode(data, validate=True)]
    return [data, base64.b64encode(data).rstrip(b"="), data.hex().encode(), *decoded]


@pytest.fixture
def crashing(tmp_path: Path) -> Secrets:
    return Secrets(tmp_path)


@pytest.mark.parametrize(
    ("listener", "secret", "words"),
    [("FILE", "what a callback has", "a bug with bob"), ("SCRAM", "what a thread has", "KeyError")],
)
def test_a_bug_with_a_password_in_hand_leaves_no_secret(
    crashing: Secrets, listener: str, secret: str, words: str
) -> None:
    with crashing.node as node:
        crashing.use()
        with suppress(EOFError, ConnectionError):
            crashing.log_in(listener, "bob", secret)
        eventually(lambda: not node.is_running, 60)
    assert node.exit_status == EX_SOFTWARE, node.output
    assert "Traceback" in node.output
    assert words in node.output
    assert crashing.left() == []


def test_a_signal_that_ends_it_leaves_no_secret(crashing: Secrets) -> None:
    with crashing.node as node:
        crashing.use()
        node.send_signal(signal.SIGABRT)
        eventually(lambda: not node.is_running, 60)
    assert node.exit_status == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in node.output
    assert crashing.left() == []


def test_secrets_are_found_where_they_stand(crashing: Secrets, tmp_path: Path) -> None:
    """So that the tests above are no idle ones."""
    name = "the password of alice"
    (tmp_path / "node" / "core").write_bytes(b"\0" + base64.b64encode(crashing.by_name[name].encode()))
    assert crashing.left() == [("core", name)]
