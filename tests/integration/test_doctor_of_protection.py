"""``esp doctor`` finds the doors that stand open on a badly protected node, of ESP and of Kafka alike, and their certificates that end."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.java_tools import JavaTools
from tests.integration.test_sasl import PLAIN_MODULE
from tests.models.certificates import PASSWORD, Authority

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

OF_THE_AUTHORIZER = {"anonymous-super-user", "open-resources"}
"""Found on ESP only: Kafka tells no value of a setting that is none of its own, as those of an authorizer are."""

OPEN = {
    "open-listener",
    "readable-passwords",
    "rule-for-nobody",
    "rule-shadowed",
    "certificate-ends-this-month",
}


class Careless:
    """A node that is protected in name only: one listener of each kind, and a certificate that ends in three weeks."""

    def __init__(self, directory: Path, kafka: KafkaTools | None) -> None:
        self.kafka = kafka
        self.directory = directory
        authority = Authority()
        authority.write_pem(directory / "ca.pem")
        ends = datetime.now(UTC) + timedelta(weeks=3)
        authority.issue("CN=node", ends=ends).write_pkcs12(directory / "node.p12")
        ports = {name: free_port() for name in ("PLAINTEXT", "LOGIN", "TLS")}
        self.addresses = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        listeners = ",".join(f"{name}://{address}" for name, address in self.addresses.items())
        controller = f"127.0.0.1:{free_port()}"
        settings = {
            "listeners": f"{listeners},CONTROLLER://{controller}",
            "controller.quorum.bootstrap.servers": controller,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";',
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(directory / "node.p12"),
            "ssl.keystore.password": PASSWORD,
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS",
            "allow.everyone.if.no.acl.found": "true",
        }
        self.node: NodeProcess = (
            Node(directory / "node", settings, ports["PLAINTEXT"])
            if kafka is None
            else RealKafka(directory / "node", settings, ports["PLAINTEXT"], tools=kafka)
        )
        self.node.format(secrets.token_urlsafe(16), "--standalone")

    def esp(self, *arguments: str, tls: bool = False) -> subprocess.CompletedProcess[str]:
        config = self.directory / "client.properties"
        config.write_text(
            f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={self.directory / 'ca.pem'}\n"
            if tls
            else ""
        )
        return subprocess.run(
            [sys.executable, "-m", "esp", *arguments],
            env=os.environ
            | {
                "ESP_BOOTSTRAP_SERVER": self.addresses["TLS" if tls else "PLAINTEXT"],
                "ESP_COMMAND_CONFIG": str(config),
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def findings(self) -> dict[str, list[str]]:
        """The places of each finding, by its rule."""
        done = self.esp("doctor", "--json", tls=True)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return {each["rule"]: [place["detail"] for place in each["places"]] for each in found}


@pytest.fixture(scope="module", params=["ours", "kafka"])
def careless(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools
) -> Iterator[Careless]:
    made = Careless(tmp_path_factory.mktemp("careless"), kafka_tools if request.param == "kafka" else None)
    with made.node:
        yield made


def test_open_doors_are_found(careless: Careless) -> None:
    for rule in (
        ("--allow-principal", "User:carol", "--operation", "Read", "--topic", "t"),
        ("--deny-principal", "User:*", "--operation", "All", "--topic", "t"),
        ("--deny-principal", "Group:staff", "--operation", "All", "--topic", "*"),
        ("--deny-principal", "User:dave", "--deny-host", "10.0.0.0/8", "--operation", "All", "--topic", "*"),
    ):
        done = careless.esp("acls", "--add", *rule)
        assert done.returncode == 0, done.stderr
    found = careless.findings()
    assert found.keys() >= OPEN | (OF_THE_AUTHORIZER if careless.kafka is None else set()), found
    assert found["open-listener"] == ["CONTROLLER, PLAINTEXT speaks PLAINTEXT"]
    assert found["readable-passwords"] == ["PLAIN on LOGIN"]
    (for_nobody,) = found["rule-for-nobody"]
    # Kafka may have groups of a foreign principal builder, and compares a host with the whole text of an address.
    assert ("Group:staff" if careless.kafka is None else "10.0.0.0/8") in for_nobody
    assert "User:carol may READ topic t" in found["rule-shadowed"][0]
    assert "in 20 days" in found["certificate-ends-this-month"][0]
    assert "secret-in-metadata" not in found


def test_a_password_in_the_metadata_log_is_found_on_kafka_and_refused_by_a_node_of_ours(careless: Careless) -> None:
    name = "listener.name.login.plain.sasl.jaas.config"
    options = ("--alter", "--entity-type", "brokers", "--entity-name", "1")
    value = f'{name}=[{PLAIN_MODULE} required user_bob="secret-in-the-log";]'
    if careless.kafka is None:
        done = careless.esp("configs", *options, "--add-config", value)
        assert done.returncode == 1
        assert "secret-in-the-log" not in done.stdout + done.stderr
        assert "secret-in-metadata" not in careless.findings()
    else:
        JavaTools(careless.kafka, careless.node.bootstrap)("configs", *options, "--add-config", value)
        assert careless.findings()["secret-in-metadata"] == [f"set as dynamic settings: {name}"]
