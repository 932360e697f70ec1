"""A secure cluster whose nodes log all that they can shows no secret: in logs, answers, dumps, or where the machine lists processes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from esp.testing.ports import free_port
from tests.integration.conftest import eventually
from tests.integration.secure_nodes import Secure, done

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it lists processes elsewhere in another way"),
]

WRONG = "a wrong password that nobody must see"
LEAST = 12
"""The length from which a line of a key cannot stand somewhere by chance."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    directory = tmp_path_factory.mktemp("secrets")
    port = free_port()
    command = ("cluster", "start", "--secure", "--nodes", "3", "--dir", "c", "--port", str(port))
    made = Secure(directory, directory / "c" / "security", port, *command, "--log-level", "debug")
    try:
        yield made.start()
    finally:
        made.end()


class Secrets:
    """The secrets of a cluster that was used in every way that shows one to a node."""

    def __init__(self, cluster: Secure) -> None:
        security = cluster.security
        self._cluster = cluster
        self.by_name = {
            "the administrator's password": cluster.password,
            "the secret of tokens": (security / "tokens.properties").read_text().strip().partition("=")[2],
            "a user's password": done(cluster.run("users", "add", "alice")).strip(),
            "a user's next password": done(cluster.run("users", "rotate", "alice")).strip(),
            "a wrong password": WRONG,
        }
        self._token = done(cluster.run("tokens", "create"))
        hmac = re.search(r'password="([^"]+)"', self._token)
        assert hmac is not None, self._token
        self.by_name["a token's password"] = hmac[1]
        for path in security.rglob("*.pem"):
            inside = re.findall(r"PRIVATE KEY-----\n(.*?)-----END", path.read_text(), re.DOTALL)
            for number, line in enumerate("".join(inside).split()):
                if len(line) >= LEAST:
                    self.by_name[f"line {number} of the key in {path.name}"] = line
        assert all(len(secret) >= LEAST for secret in self.by_name.values())
        self._use()

    def _use(self) -> None:
        """Log in with a right and a wrong password, and by the token."""
        cluster = self._cluster
        wrong = cluster.librdkafka() | {"sasl.password": WRONG, "log_level": 0}
        with pytest.raises(KafkaException):
            AdminClient(wrong).list_topics(timeout=5)
        alice = cluster.librdkafka() | {
            "sasl.username": "alice",
            "sasl.password": self.by_name["a user's next password"],
        }
        producer = Producer(alice | {"message.timeout.ms": 5000, "log_level": 0})
        producer.produce("of-nobody", b"x")
        producer.flush(10)
        config = cluster.security.parent / "by-token.properties"
        lines = (cluster.security / "admin" / "client.properties").read_text().splitlines()
        kept = [line for line in lines if not line.startswith("sasl.jaas.config=")]
        config.write_text("\n".join([*kept, self._token]))
        done(cluster.run("topics", "--list", config=config))
        config.unlink()

    def found_in(self, text: str) -> list[str]:
        return [name for name, secret in self.by_name.items() if secret in text]


@pytest.fixture(scope="module")
def secrets(cluster: Secure) -> Secrets:
    return Secrets(cluster)


def test_logs_of_all_levels_show_no_secret(cluster: Secure, secrets: Secrets) -> None:
    eventually(lambda: "wrong password, or no such user" in logs_of(cluster), 30)
    assert secrets.found_in(logs_of(cluster)) == []


def logs_of(cluster: Secure) -> str:
    """The output of the command and of all nodes."""
    return cluster.output + "".join(
        path.read_text() for path in (cluster.security.parent).rglob("*.log*") if is_text(path)
    )


def is_text(path: Path) -> bool:
    return path.is_file() and b"\0" not in path.read_bytes()[:4096]


def test_the_list_of_processes_shows_no_secret(cluster: Secure, secrets: Secrets) -> None:
    nodes = processes_in(cluster.security.parent)
    assert len(nodes) == 3
    for told in nodes:
        assert secrets.found_in(told) == []
        assert "--log-level\0debug" in told, "their logs have all levels"


def processes_in(directory: Path) -> list[str]:
    """The arguments and the environment of each process that was started with a file in a directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (process / "cmdline").read_bytes()
            if str(directory).encode() in arguments:
                found.append((arguments + (process / "environ").read_bytes()).decode(errors="replace"))
        except OSError:  # it has just ended
            continue
    return found


def test_settings_as_they_are_told_show_no_secret(cluster: Secure, secrets: Secrets) -> None:
    admin = AdminClient(cluster.librdkafka())
    asked = [ConfigResource(ConfigResource.Type.BROKER, str(number)) for number in (1, 2, 3)]
    answers = [answer.result(30) for each in asked for answer in admin.describe_configs([each]).values()]
    told = repr([list(answer.values()) for answer in answers])
    assert "delegation.token.secret.key" in told
    assert secrets.found_in(told) == []
    assert (
        secrets.found_in(
            done(cluster.run("configs", "--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"))
        )
        == []
    )


def test_dumps_of_the_metadata_log_show_no_secret(cluster: Secure, secrets: Secrets) -> None:
    logs = [str(path.parent) for path in cluster.security.parent.rglob("__cluster_metadata-0/*.log")]
    assert len(logs) == 3
    told = done(cluster.run("dump-log", "--cluster-metadata-decoder", *logs))
    assert '"storedKey":"[hidden]"' in told.replace(" ", "")
    assert "DELEGATION_TOKEN_RECORD" in told
    assert secrets.found_in(told) == []
