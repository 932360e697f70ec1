"""The commands, told by ``--command-config`` how to speak TLS, and that they show a certificate."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from esp.testing.node_process import NodeProcess
from tests.models.certificates import PASSWORD, Authority


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def node_settings(authority: Authority, files: Path) -> dict[str, str]:
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("CN=node").write_pem(files / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(files / "ca.pem")),
        "ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:CN=node;User:CN=carol",
    }


def config(authority: Authority, files: Path, name: str) -> Path:
    """A file for a client of that name."""
    store = authority.issue(f"CN={name}", hosts=()).write_pkcs12(files / f"{name}.p12")
    path = files / f"{name}.properties"
    path.write_text(
        f"security.protocol=SSL\nssl.truststore.location={files / 'ca.pem'}\n"
        f"ssl.keystore.location={store}\nssl.keystore.password={PASSWORD}\n"
    )
    return path


def run(node: NodeProcess, path: Path | None, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, with the file named in its environment."""
    environment = os.environ | {"ESP_BOOTSTRAP_SERVER": node.bootstrap}
    if path is not None:
        environment["ESP_COMMAND_CONFIG"] = str(path)
    return subprocess.run(
        [sys.executable, "-m", "esp", *arguments],
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_commands_administer_write_read_and_judge(node: NodeProcess, authority: Authority, files: Path) -> None:
    path = config(authority, files, "carol")
    for arguments, shown in (
        (("topics", "--create", "--topic", "t", "--partitions", "2"), "Created topic t."),
        (("topics", "--list"), "t"),
        (("produce", "--topic", "t"), ""),
        (("consume", "--topic", "t", "--from-beginning", "--max-messages", "3"), "line 2"),
        (("get-offsets", "--topic", "t"), "t:0:"),
        (("configs", "--entity-type", "topics", "--entity-name", "t", "--describe", "--all"), "retention.ms"),
        (("brokers", "list"), node.bootstrap),
        (("quorum", "describe"), "1"),
        (("groups", "--list"), ""),
        (("transactions", "list"), ""),
        (("doctor", "--skip", "certificate-ends-this-week"), ""),
    ):
        done = run(node, path, *arguments, stdin="line 1\nline 2\nline 3\n")
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        assert shown in done.stdout, (arguments, done.stdout)


def test_the_doctor_says_when_the_certificates_of_brokers_end(
    node: NodeProcess, authority: Authority, files: Path
) -> None:
    done = run(node, config(authority, files, "carol"), "doctor", "--rule", "certificate-ends-this-week", "--json")
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    (place,) = finding["places"]
    assert place["detail"] == f"the certificate at {node.bootstrap} ends in 0 days"


def test_the_doctor_looks_at_the_files_of_a_node_on_its_host(
    node: NodeProcess, authority: Authority, files: Path, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.pem + authority.revocations_pem())
    own = authority.issue("CN=node").write_pem(tmp_path / "own.pem")
    settings = tmp_path / "server.properties"
    settings.write_text(
        "listeners=CLIENTS://127.0.0.1:9093\nlistener.security.protocol.map=CLIENTS:SSL,CONTROLLER:SSL\n"
        f"inter.broker.listener.name=CLIENTS\nssl.keystore.type=PEM\nssl.keystore.location={own}\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
    )
    rules = "revocations-end-this-week,readable-secret"
    looking = ("doctor", "--config", str(settings), "--rule", rules, "--json")
    done = run(node, config(authority, files, "carol"), *looking)
    assert done.returncode == 1, done.stderr
    (finding,) = json.loads(done.stdout)["findings"]
    (place,) = finding["places"]
    assert place["detail"] == f"the list of CN=Test CA in {trusted} ends in 0 days"


def test_a_broker_is_asked_on_a_connection_of_its_own(node: NodeProcess, authority: Authority, files: Path) -> None:
    path = config(authority, files, "carol")
    done = run(node, path, "brokers", "remove", "77")
    assert "77" in done.stderr
    assert "did not answer" not in done.stderr


def test_a_user_without_rights_is_told_so(node: NodeProcess, authority: Authority, files: Path) -> None:
    done = run(node, config(authority, files, "dave"), "topics", "--create", "--topic", "u")
    assert done.returncode == 1
    assert "uthorization failed" in done.stderr


def test_without_the_file_no_broker_answers(node: NodeProcess) -> None:
    done = run(node, None, "topics", "--list")
    assert done.returncode == 1
    assert node.bootstrap in done.stderr
