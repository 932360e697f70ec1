"""Delegation tokens in the hands of our own clients: the commands, and the data source ``esp``, log in by one until it ends."""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from esp.consumer.errors import ConsumerError
from esp.spark.source import DefaultSource
from tests.integration.conftest import eventually
from tests.integration.source_rows import read_values
from tests.integration.test_sasl import PROTOCOLS, SCRAM_MODULE, GuardedNode, LogIn

pytestmark = pytest.mark.timeout(180)

SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
A_SECOND = "0.0003"
"""About a second, in hours."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedNode]:
    node = GuardedNode(tmp_path_factory.mktemp("guarded"), **{"delegation.token.secret.key": "the secret"})
    with node.process:
        yield node


class Bearer:
    """A client that logs in by a token, or, without one, by its name and password."""

    def __init__(self, log_in: LogIn, directory: Path, token: tuple[str, str] | None = None) -> None:
        self._log_in = log_in
        user, password = token or (log_in.user, log_in.password)
        by = "" if token is None else ' tokenauth="true"'
        jaas = f'{SCRAM_MODULE} required username="{user}" password="{password}"{by};'
        self.options = {
            "kafka.security.protocol": log_in.protocol,
            "kafka.sasl.mechanism": log_in.mechanism,
            "kafka.sasl.jaas.config": jaas,
        }
        if log_in.protocol == "SASL_SSL":
            self.options["kafka.ssl.truststore.type"] = "PEM"
            self.options["kafka.ssl.truststore.location"] = str(log_in.authority / "ca.pem")
        self._file = directory / f"{user}.properties"
        self._file.write_text(
            "".join(f"{name.removeprefix('kafka.')}={value}\n" for name, value in self.options.items())
        )

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "esp", *arguments],
            env=os.environ | {"ESP_BOOTSTRAP_SERVER": self._log_in.bootstrap, "ESP_COMMAND_CONFIG": str(self._file)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def done(self, *arguments: str, stdin: str = "") -> str:
        done = self(*arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout


def make_token(owner: Bearer) -> tuple[str, str]:
    made = json.loads(owner.done("tokens", "create", "--json"))
    return made["id"], made["hmac"]


@pytest.mark.parametrize(("protocol", "mechanism"), list(zip(PROTOCOLS, SCRAM, strict=True)))
def test_commands_log_in_by_a_token(guarded: GuardedNode, tmp_path: Path, protocol: str, mechanism: str) -> None:
    log_in = guarded.log_in(protocol, mechanism)
    bearer = Bearer(log_in, tmp_path, make_token(Bearer(log_in, tmp_path)))
    topic = f"by-{mechanism}"
    for arguments, shown in (
        (("topics", "--create", "--topic", topic, "--partitions", "2"), f"Created topic {topic}."),
        (("topics", "--list"), topic),
        (("produce", "--topic", topic), ""),
        (("consume", "--topic", topic, "--from-beginning", "--max-messages", "3"), "line 2"),
        (("get-offsets", "--topic", topic), f"{topic}:0:"),
        (("configs", "--entity-type", "topics", "--entity-name", topic, "--describe", "--all"), "retention.ms"),
        (("brokers", "list"), log_in.bootstrap),
        (("quorum", "describe"), "1"),
        (("groups", "--list"), ""),
        (("quotas", "held"), "No client is held."),
        (("users", "list"), "alice"),
    ):
        assert shown in bearer.done(*arguments, stdin="line 1\nline 2\nline 3\n"), arguments
    assert (
        "delegation tokens are for clients that have logged in, and not by a token" in bearer("tokens", "list").stderr
    )


@pytest.mark.parametrize(("protocol", "mechanism"), list(zip(PROTOCOLS, SCRAM, strict=True)))
def test_the_data_source_writes_and_reads_by_a_token(
    guarded: GuardedNode, tmp_path: Path, protocol: str, mechanism: str, topic: str
) -> None:
    log_in = guarded.log_in(protocol, mechanism)
    owner = Bearer(log_in, tmp_path)
    owner.done("topics", "--create", "--topic", topic)
    bearer = Bearer(log_in, tmp_path, make_token(owner))
    source = DefaultSource({"kafka.bootstrap.servers": log_in.bootstrap, "topic": topic, **bearer.options})
    writer = pickle.loads(pickle.dumps(source.writer(StructType([StructField("value", StringType())]), False)))
    writer.write(iter([pa.RecordBatch.from_pydict({"value": ["1", "2", "3"]})]))
    assert read_values(log_in.bootstrap, topic, **bearer.options) == [b"1", b"2", b"3"]


def test_an_ended_token_is_told_in_one_line_with_the_remedy(guarded: GuardedNode, tmp_path: Path) -> None:
    log_in = guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-256")
    owner = Bearer(log_in, tmp_path)
    token = make_token(owner)
    bearer = Bearer(log_in, tmp_path, token)
    bearer.done("topics", "--list")
    owner.done("tokens", "expire", token[0], "--hours", A_SECOND)
    eventually(lambda: bearer("topics", "--list").returncode == 1, 60)
    for command in (("topics", "--list"), ("quotas", "list"), ("produce", "--topic", "t")):
        problem, remedy = bearer(*command, stdin="a\n").stderr.splitlines()
        assert problem.startswith("esp: the broker at "), problem
        assert "does not let this command in" in problem
        assert "The delegation token may have ended" in remedy
        assert "esp tokens create" in remedy
    with pytest.raises(ConsumerError, match=r"give kafka\.sasl\.jaas\.config a token that has not ended") as told:
        read_values(log_in.bootstrap, "t", **bearer.options)
    assert token[1] not in str(told.value)


def test_a_token_is_no_user_and_a_user_no_token(guarded: GuardedNode, tmp_path: Path) -> None:
    log_in = guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-512")
    token = make_token(Bearer(log_in, tmp_path))
    as_user = Bearer(guarded.log_in("SASL_PLAINTEXT", "SCRAM-SHA-512", *token), tmp_path)
    assert "does not let this command in" in as_user("topics", "--list").stderr
    as_token = Bearer(log_in, tmp_path, (log_in.user, log_in.password))
    assert "does not let this command in" in as_token("topics", "--list").stderr
