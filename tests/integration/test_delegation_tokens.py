"""Delegation tokens in the hands of Kafka's own tools: all verbs of ``kafka-delegation-tokens.sh``, and Java clients with tokens."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from esp.cli.kafka.command_config import read_command_config, using
from esp.cli.kafka.protection import ProtectionAdmin
from esp.testing.kafka_tools import KafkaTools
from tests.integration.dump_log import dump_here as dumped
from tests.integration.test_sasl import SCRAM_MODULE, GuardedNode
from tests.models.certificates import PASSWORD

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

TOOL = "org.apache.kafka.tools.DelegationTokenCommand"
SECRET = "the secret of the tokens"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    node = GuardedNode(
        tmp_path_factory.mktemp("guarded"),
        **{"delegation.token.secret.key": SECRET, "delegation.token.expiry.check.interval.ms": "500"},
    )
    with node.process:
        yield node


class Tool:
    """``kafka-delegation-tokens.sh`` as alice uses it."""

    def __init__(self, guarded: GuardedNode, tools: KafkaTools) -> None:
        log_in = guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-256")
        self._tools = tools
        self._server = ("--bootstrap-server", log_in.bootstrap, "--command-config", log_in.java_file(guarded.directory))

    def __call__(self, *arguments: str) -> str:
        done = self._tools.run(TOOL, *self._server, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "rror" not in done.stderr, done.stderr
        return done.stdout


def found(printed: str) -> list[tuple[str, str]]:
    """The ids and HMACs of tokens that the tool has printed."""
    return re.findall(r"^(\S{22})\s+(\S{88})\s", printed, re.MULTILINE)


def java_file(guarded: GuardedNode, protocol: str, mechanism: str, token: tuple[str, str]) -> str:
    """The settings of a Java client that logs in by a token."""
    path = guarded.directory / f"{protocol}-{mechanism}-token.properties"
    path.write_text(
        f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n"
        f'sasl.jaas.config={SCRAM_MODULE} required username="{token[0]}" password="{token[1]}" tokenauth="true";\n'
        f"ssl.truststore.location={guarded.directory / 'ca.p12'}\nssl.truststore.password={PASSWORD}\n"
    )
    return str(path)


def test_all_verbs_of_kafka_s_tool(guarded: GuardedNode, kafka_tools: KafkaTools) -> None:
    tool = Tool(guarded, kafka_tools)
    printed = tool("--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob")
    (made,) = found(printed)
    assert "User:alice" in printed
    assert "[User:bob]" in printed
    owned = ("--describe", "--owner-principal", "User:alice")
    assert made in found(tool(*owned))
    assert found(tool("--describe")) == [], "of no owner, as the tool asks, also of Kafka"
    assert found(tool("--describe", "--owner-principal", "User:carol")) == []
    assert "Completed renew operation" in tool("--renew", "--renew-time-period", "3600000", "--hmac", made[1])
    assert "Completed expire operation" in tool("--expire", "--expiry-time-period", "-1", "--hmac", made[1])
    refused = kafka_tools.run(
        *("topics", "--bootstrap-server", guarded.addresses["SASL_PLAINTEXT"], "--list"),
        *("--command-config", java_file(guarded, "SASL_PLAINTEXT", "SCRAM-SHA-256", made)),
    )
    assert "SaslAuthenticationException" in refused.stdout + refused.stderr
    assert SECRET not in guarded.process.output
    assert made[1] not in guarded.process.output
    files = sorted((guarded.process.data_dir / "__cluster_metadata-0").glob("*.log"))
    kafkas = kafka_tools.run("dump-log", "--cluster-metadata-decoder", "--files", ",".join(map(str, files))).stdout
    for line in (each for each in dumped(files, "--cluster-metadata-decoder").splitlines() if made[0] in each):
        assert line in kafkas
    assert kafkas.count(made[0]) == 3
    assert made[1] not in kafkas


def test_esp_tokens(guarded: GuardedNode, tmp_path: Path) -> None:
    log_in = guarded.log_in("SASL_SSL", "SCRAM-SHA-512")

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "esp", "tokens", *arguments, "--bootstrap-server", log_in.bootstrap]
        told = {**os.environ, "ESP_COMMAND_CONFIG": log_in.java_file(tmp_path)}
        done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    made = json.loads(run("create", "--renewer", "bob", "--hours", "1", "--json"))
    assert (made["owner"], made["renewers"]) == ("User:alice", ["User:bob"])
    assert made["renewableUntilMs"] - made["issuedMs"] == 3_600_000
    run("expire", made["id"], "--hours", "0.5")
    (told,) = [each for each in json.loads(run("list", "--hmacs", "--json")) if each["id"] == made["id"]]
    assert told["hmac"] == made["hmac"]
    assert told["expiresMs"] < made["expiresMs"]
    with using(read_command_config(log_in.java_file(tmp_path))), ProtectionAdmin(log_in.bootstrap) as admin:
        protection = admin.protection({1: log_in.bootstrap}, made["issuedMs"])
    assert (made["id"], "User:alice", 3600, 3600) in protection.tokens
    assert {each.user for each in protection.passwords} >= {"alice"}


@pytest.fixture(scope="module")
def token(guarded: GuardedNode, kafka_tools: KafkaTools) -> tuple[str, str]:
    """The id and the HMAC of a token of alice's."""
    return found(Tool(guarded, kafka_tools)("--create", "--max-life-time-period", "-1"))[0]


@pytest.mark.parametrize(
    ("protocol", "mechanism"), [("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")]
)
def test_java_clients_log_in_by_a_token(
    guarded: GuardedNode, kafka_tools: KafkaTools, token: tuple[str, str], protocol: str, mechanism: str, topic: str
) -> None:
    server = (
        *("--bootstrap-server", guarded.addresses[protocol]),
        *("--command-config", java_file(guarded, protocol, mechanism, token)),
    )
    lines = [f"line {number}" for number in range(100)]
    written = kafka_tools.run("console-producer", *server, "--topic", topic, stdin="\n".join(lines))
    assert "ERROR" not in written.stderr
    read = kafka_tools.run(
        *("console-consumer", *server, "--topic", topic, "--from-beginning"),
        *("--max-messages", "100", "--timeout-ms", "30000"),
    )
    assert read.stdout.split("\n")[:-1] == lines, read.stderr
