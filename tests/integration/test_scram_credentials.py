"""Users' SCRAM credentials: Kafka's tools change those of a node of ours, and directories change hands between ESP and Kafka with them."""

import secrets
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaTimeoutError, SaslAuthenticationFailedError

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST, NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually
from tests.integration.dump_log import dump_here as dumped
from tests.integration.java_tools import JavaTools

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

BOTH = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def users_of(node: NodeProcess) -> dict[str, dict[str, int]]:
    """The iterations of each user's credentials, by their mechanisms."""
    with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap)) as admin:
        return {
            user: {info["mechanism"].name.replace("_", "-"): info["iterations"] for info in told["credential_infos"]}
            for user, told in admin.describe_user_scram_credentials().items()
        }


class Users:
    """Kafka's own tool, as an administrator of users uses it."""

    def __init__(self, tools: KafkaTools, node: NodeProcess) -> None:
        self._configs = JavaTools(tools, node.bootstrap)

    def change(self, user: str, *options: str) -> str:
        return self._configs("configs", "--alter", "--entity-type", "users", "--entity-name", user, *options)

    def refused(self, user: str, *options: str) -> str:
        return self._configs.said("configs", "--alter", "--entity-type", "users", "--entity-name", user, *options)

    def described(self) -> set[str]:
        lines = self._configs("configs", "--describe", "--entity-type", "users").splitlines()
        return {line for line in lines if line.startswith("SCRAM")}


def esp_users(node: NodeProcess, *arguments: str) -> str:
    """What ``esp users`` prints."""
    command = [sys.executable, "-m", "esp", "users", *arguments, "--bootstrap-server", node.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def logs_in(port: int, user: str, password: str, mechanism: str) -> bool:
    """True if the user is let in at a listener of SASL_PLAINTEXT."""
    try:
        admin = KafkaAdminClient(
            bootstrap_servers=f"{HOST}:{port}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username=user,
            sasl_plain_password=password,
            bootstrap_timeout_ms=3_000,
        )
    except (SaslAuthenticationFailedError, KafkaTimeoutError):
        return False
    with closing(admin):
        admin.list_topics()
    return True


def pair_on(data_dir: Path, tools: KafkaTools) -> tuple[Node, RealKafka, int]:
    """ESP and Kafka on one directory, each with a listener for users besides, whose port is returned too."""
    port, sasl_port, controller = free_port(), free_port(), f"{HOST}:{free_port()}"
    settings = {
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{controller},USERS://{HOST}:{sasl_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,USERS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(BOTH),
    }
    for mechanism in BOTH:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        settings[f"listener.name.users.{mechanism.lower()}.sasl.jaas.config"] = module
    return Node(data_dir, settings, port), RealKafka(data_dir, settings, port, tools=tools), sasl_port


def check_log_ins(port: int, erins: str) -> None:
    """Each user that kafka-storage, kafka-configs and ``esp users`` made logs in."""
    assert logs_in(port, "alice", "alice-1", "SCRAM-SHA-256")
    assert logs_in(port, "alice", "alice-2", "SCRAM-SHA-512")
    assert logs_in(port, "bob", "bob-2", "SCRAM-SHA-256")
    assert logs_in(port, "formatted", "second", "SCRAM-SHA-512")
    assert logs_in(port, "erin", erins, "SCRAM-SHA-256")


# Kafka takes the directory once: when it reads of a user that was deleted, 4.3.1 may forget all other users of the mechanism.
def test_directories_change_hands_with_their_users(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    ours, kafka, sasl_port = pair_on(tmp_path / "data", kafka_tools)
    kafka.format(
        secrets.token_urlsafe(16),
        "--standalone",
        "--add-scram=SCRAM-SHA-256=[name=formatted,password=first]",
        "--add-scram=SCRAM-SHA-512=[name=formatted,password=second,iterations=8192]",
    )

    with ours:
        assert users_of(ours) == {"formatted": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 8192}}
        users = Users(kafka_tools, ours)
        users.change("alice", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=alice-1]")
        users.change("alice", "--add-config", "SCRAM-SHA-512=[password=alice-2]")
        users.change("bob", "--add-config", "SCRAM-SHA-256=[password=bob-1]")
        users.change("bob", "--add-config", "SCRAM-SHA-256=[password=bob-2]")
        users.change("formatted", "--delete-config", "SCRAM-SHA-256")
        assert users.described() == {
            "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096",
            "SCRAM credential configs for user-principal 'bob' are SCRAM-SHA-256=iterations=4096",
            "SCRAM credential configs for user-principal 'formatted' are SCRAM-SHA-512=iterations=8192",
        }
        assert "Attempt to delete a user credential that does not exist" in users.refused(
            "bob", "--delete-config", "SCRAM-SHA-512"
        )
        erins = esp_users(ours, "add", "erin", "--mechanism", "SCRAM-SHA-256", "--iterations", "5000")
        told = users_of(ours)
        assert told["erin"] == {"SCRAM-SHA-256": 5000}
        check_log_ins(sasl_port, erins)
    with kafka:
        eventually(lambda: users_of(kafka) == told, timeout_s=30)
        check_log_ins(sasl_port, erins)
        assert not logs_in(sasl_port, "alice", "alice-1", "SCRAM-SHA-512")
        assert not logs_in(sasl_port, "bob", "bob-1", "SCRAM-SHA-256")
        assert not logs_in(sasl_port, "formatted", "first", "SCRAM-SHA-256")
        users = Users(kafka_tools, kafka)
        users.change("carol", "--add-config", "SCRAM-SHA-512=[password=carol-1]")
        users.change("bob", "--delete-config", "SCRAM-SHA-256")
        password = esp_users(kafka, "add", "dave")
        assert logs_in(sasl_port, "dave", password, "SCRAM-SHA-512")
        other = esp_users(kafka, "rotate", "dave")
        assert logs_in(sasl_port, "dave", other, "SCRAM-SHA-512")
        assert not logs_in(sasl_port, "dave", password, "SCRAM-SHA-512")
        assert "dave SCRAM-SHA-512 16384" in " ".join(esp_users(kafka, "list").split())
        esp_users(kafka, "delete", "dave")
    with ours:
        assert users_of(ours) == {
            "alice": {"SCRAM-SHA-256": 8192, "SCRAM-SHA-512": 4096},
            "carol": {"SCRAM-SHA-512": 4096},
            "erin": {"SCRAM-SHA-256": 5000},
            "formatted": {"SCRAM-SHA-512": 8192},
        }
        assert logs_in(sasl_port, "carol", "carol-1", "SCRAM-SHA-512")
        esp_users(ours, "delete", "carol")
        assert "carol" not in users_of(ours)
    files = sorted(tmp_path.glob("data/__cluster_metadata-0/*.log"))
    printed = dumped(files, "--cluster-metadata-decoder")
    assert printed.count('"type":"USER_SCRAM_CREDENTIAL_RECORD"') == 10
    assert printed.count('"type":"REMOVE_USER_SCRAM_CREDENTIAL_RECORD"') == 4
    assert printed.count('"salt":"[hidden]","storedKey":"[hidden]","serverKey":"[hidden]"') == 10


def test_kafka_begins_with_the_users_of_our_format(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    ours, kafka, sasl_port = pair_on(tmp_path / "data", kafka_tools)
    ours.format(
        secrets.token_urlsafe(16),
        "--standalone",
        "--add-scram=SCRAM-SHA-256=[name=alice,password=alice-1]",
        "--add-scram=SCRAM-SHA-512=[name=alice,password=alice-2,iterations=8192]",
    )
    with kafka:
        eventually(lambda: users_of(kafka) == {"alice": {"SCRAM-SHA-256": 16384, "SCRAM-SHA-512": 8192}}, timeout_s=30)
        assert logs_in(sasl_port, "alice", "alice-1", "SCRAM-SHA-256")
        assert logs_in(sasl_port, "alice", "alice-2", "SCRAM-SHA-512")
        assert not logs_in(sasl_port, "alice", "alice-2", "SCRAM-SHA-256")
