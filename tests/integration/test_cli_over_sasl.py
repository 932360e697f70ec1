"""The commands log in by PLAIN and SCRAM as ``--command-config`` says, with and without TLS, and so do users that they have added."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.node_process import NodeProcess
from tests.models.certificates import Authority

SECURITY = "org.apache.kafka.common.security"
SECRET = "the administrator's, with = in it"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module", params=["SASL_SSL", "SASL_PLAINTEXT"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def node_settings(files: Path, protocol: str) -> dict[str, str]:
    authority = Authority()
    jaas = f'{SECURITY}.plain.PlainLoginModule required user_admin="{SECRET}";'
    settings = {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol},CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:ANONYMOUS",
    }
    if protocol == "SASL_SSL":
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(authority.issue("CN=node").write_pem(files / "node.pem")),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(authority.write_pem(files / "ca.pem")),
        }
    return settings


class Client:
    """A user's commands."""

    def __init__(self, node: NodeProcess, files: Path, protocol: str) -> None:
        self._node, self._files, self._protocol = node, files, protocol

    def __call__(
        self, user: str, password: str, mechanism: str, *arguments: str, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        jaas = f'{SECURITY}.{kind} required username="{user}" password="{password}";'
        lines = [f"security.protocol={self._protocol}", f"sasl.mechanism={mechanism}", f"sasl.jaas.config={jaas}"]
        if self._protocol == "SASL_SSL":
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={self._files / 'ca.pem'}"]
        path = self._files / "client.properties"
        path.write_text("\n".join(lines))
        done = subprocess.run(
            [sys.executable, "-m", "esp", *arguments],
            env=os.environ | {"ESP_BOOTSTRAP_SERVER": self._node.bootstrap, "ESP_COMMAND_CONFIG": str(path)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert password not in done.stderr
        return done

    def admin(self, *arguments: str, stdin: str = "") -> str:
        done = self("admin", SECRET, "PLAIN", *arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture(scope="module")
def client(node: NodeProcess, files: Path, protocol: str) -> Client:
    return Client(node, files, protocol)


def test_commands_administer_write_read_and_judge(client: Client, node: NodeProcess) -> None:
    for arguments, shown in (
        (("topics", "--create", "--topic", "t", "--partitions", "2"), "Created topic t."),
        (("topics", "--list"), "t"),
        (("produce", "--topic", "t"), ""),
        (("consume", "--topic", "t", "--from-beginning", "--max-messages", "3"), "line 2"),
        (("get-offsets", "--topic", "t"), "t:0:"),
        (
            ("sql", "SELECT decode(value) AS value FROM t ORDER BY 1", "--format", "csv"),
            "value\nline 1\nline 2\nline 3\n",
        ),
        (("configs", "--entity-type", "topics", "--entity-name", "t", "--describe", "--all"), "retention.ms"),
        (("brokers", "list"), node.bootstrap),
        (("quorum", "describe"), "1"),
        (("groups", "--list"), ""),
        (("transactions", "list"), ""),
        (("users", "list"), "USER"),
    ):
        assert shown in client.admin(*arguments, stdin="line 1\nline 2\nline 3\n"), arguments


def test_the_doctor_examines_the_cluster(client: Client) -> None:
    done = client("admin", SECRET, "PLAIN", "doctor")
    assert "examined 1 brokers" in done.stdout, (done.stdout, done.stderr)


def test_a_broker_is_asked_on_a_connection_of_its_own(client: Client) -> None:
    done = client("admin", SECRET, "PLAIN", "brokers", "remove", "77")
    assert "77" in done.stderr
    assert "did not answer" not in done.stderr
    assert "let this command in" not in done.stderr


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in_from_its_addition_to_its_deletion(client: Client, mechanism: str) -> None:
    name = f"alice=,{mechanism}"
    password = client.admin("users", "add", name, "--mechanism", mechanism).strip()
    done = client(name, password, mechanism, "topics", "--list")
    assert done.returncode == 0, done.stderr
    done = client(name, password, mechanism, "topics", "--create", "--topic", "u")
    assert "uthorization failed" in done.stderr
    other = client.admin("users", "rotate", name).strip()
    refused = client(name, password, mechanism, "topics", "--list")
    assert refused.returncode == 1
    assert "does not let this command in" in refused.stderr
    assert "esp users rotate" in refused.stderr
    assert client(name, other, mechanism, "topics", "--list").returncode == 0
    assert f"{name} {mechanism} 16384" in " ".join(client.admin("users", "list").split())
    client.admin("users", "delete", name)
    assert client(name, other, mechanism, "topics", "--list").returncode == 1


def test_a_denied_topic_is_told_with_the_rule_that_allows_it(client: Client) -> None:
    client.admin("topics", "--create", "--topic", "denied")
    password = client.admin("users", "add", "bob").strip()
    for arguments, words, remedy in (
        (("produce",), "may not write to the topic denied", "--producer --topic denied"),
        (("consume", "--from-beginning"), "or this user may not read it", "--operation Read --topic denied"),
    ):
        done = client("bob", password, "SCRAM-SHA-512", *arguments, "--topic", "denied", stdin="a\n")
        assert done.returncode == 1
        assert words in done.stderr
        assert remedy in done.stderr


def test_requests_of_the_tools_own_are_refused_likewise(client: Client) -> None:
    done = client("admin", "another one", "PLAIN", "quorum", "remove", "77")
    assert done.returncode != 0
    done = client("admin", "another one", "PLAIN", "brokers", "remove", "77")
    assert done.returncode == 1
    assert "does not let this command in" in done.stderr
