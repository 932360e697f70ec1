"""The commands that administer a cluster, as users run them: the same script on our node and on Kafka, and the same words from both.

Kafka's own tools say the same about our node, in columns that are compared word by word.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually

RECORDS = 20


class Commands:
    """Runs commands against one node, and remembers what they said."""

    def __init__(self, node: NodeProcess) -> None:
        self.node = node

    def __call__(self, command: str, *arguments: str, status: int = 0) -> str:
        """Run a command in this process; return what it printed, or what it said on stderr if it had to fail."""
        out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            done = run_tools([command, "--bootstrap-server", self.node.bootstrap, *arguments])
        out.seek(0)
        printed = out.read()
        assert done == status, (command, arguments, printed, err.getvalue())
        return err.getvalue() if status else printed

    def until(self, shows: str, command: str, *arguments: str, gone: bool = False) -> str:
        """Run a command until it shows a text, or shows it no more: a broker learns of changes a moment after they are made."""
        printed = ""

        def learned() -> bool:
            nonlocal printed
            printed = self(command, *arguments)
            return (shows in printed) is not gone

        eventually(learned, timeout_s=30)
        return printed

    def rows(self, command: str, *arguments: str) -> list[list[str]]:
        """Run a command and return the words of each line that has any."""
        return words(self(command, *arguments))


def words(text: str) -> list[list[str]]:
    """The words of each line that has any."""
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """The path of a file with records that have all one key."""
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"k\t{number}\n" for number in range(RECORDS)))
    return str(file)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    """Commands for our node."""
    node = Node(tmp_path_factory.mktemp("ours") / "data", {"group.initial.rebalance.delay.ms": "0"})
    try:
        yield Commands(node.start())
        node.stop()
    finally:
        if node.is_running:
            node.kill()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Iterator[Commands]:
    """The same commands for Kafka."""
    node = RealKafka(tmp_path_factory.mktemp("kafka") / "data", tools=kafka_tools)
    try:
        yield Commands(node.start())
    finally:
        if node.is_running:
            node.kill()


def groups_script(run: Commands, topic: str, lines: str, directory: Path) -> list[object]:
    """Let a group read, look at it, move it and take it away; return what was said."""
    group = f"readers-of-{topic}"
    at = ("--group", group)
    run("topics", "--create", "--topic", topic, "--partitions", "2")
    run("produce", "--topic", topic, "--property", "parse.key=true", "--file", lines)
    first = run("consume", "--topic", topic, *at, "--from-beginning", "--max-messages", "8")
    rest = run("consume", "--topic", topic, *at, "--max-messages", "12")
    said: list[object] = [
        first,
        rest,
        run("groups", "--list").split(),
        run.rows("groups", "--list", "--state", "empty"),
    ]
    said.append(run.rows("groups", "--describe", *at))
    said.append(run.rows("groups", "--describe", *at, "--members"))
    said.append([row[:1] + row[3:] for row in run.rows("groups", "--describe", "--all-groups", "--state")])
    reset = ("groups", "--reset-offsets", *at)
    said.append(run.rows(*reset, "--all-topics", "--shift-by", "-3", "--dry-run"))
    exported = run(*reset, "--all-topics", "--to-current", "--export")
    said.append(exported)
    said.append(run.rows(*reset, "--topic", f"{topic}:0,1", "--to-datetime", "2020-01-01T00:00:00", "--execute"))
    said.append(run.rows("groups", "--describe", *at))
    file = directory / "offsets.csv"
    file.write_text(exported)
    said.append(run.rows(*reset, "--from-file", str(file), "--execute"))
    [told] = json.loads(run("groups", "--describe", *at, "--json"))
    said.append((told["state"], told["offsets"]))
    said.append(run("groups", "--delete-offsets", *at, "--topic", topic))
    said.append(run("groups", "--describe", "--group", "nobody", status=1))
    said.append(
        run("groups", *("--reset-offsets", "--group", "new", "--topic", topic, "--to-offset", "2", "--execute"))
    )
    said.append(run("groups", "--delete", *at, "--group", "new"))
    said.append(run("groups", "--list"))
    return said


def test_groups_are_looked_at_moved_and_deleted_alike(
    ours: Commands, kafka: Commands, lines: str, tmp_path: Path
) -> None:
    said = groups_script(ours, "moved", lines, tmp_path)
    assert said == groups_script(kafka, "moved", lines, tmp_path)
    first, rest = said[:2]
    assert isinstance(first, str)
    assert isinstance(rest, str)
    assert (first + rest).split() == [str(number) for number in range(RECORDS)], "the group went on where it was"


def configs_script(run: Commands, topic: str) -> list[object]:
    """Change settings of a topic, of brokers and of a group, and back; return what was said."""
    run("topics", "--create", "--topic", topic)
    at = ("--entity-type", "topics", "--entity-name", topic)
    change = "retention.ms=86400000,message.timestamp.type=LogAppendTime"
    said: list[object] = [run("configs", "--alter", *at, "--add-config", change)]
    said.append(run.until("LogAppendTime", "configs", "--describe", *at))
    said.append(run("configs", "--alter", *at, "--delete-config", "message.timestamp.type"))
    shown = run.until("LogAppendTime", "configs", "--describe", "--topic", topic, "--json", gone=True)
    said.append(json.loads(shown))
    said.append([line.split("=")[0] for line in run("configs", "--describe", *at, "--all").splitlines()])
    said.append(run("configs", "--alter", *at, "--add-config", "nope=1", status=1))
    said.append(run("configs", "--alter", *at, "--add-config", "retention.ms=soon", status=1))
    said.append(run("configs", "--describe", "--topic", "missing", status=1))
    said.append(run("configs", "--alter", "--broker-defaults", "--add-config", "log.retention.ms=99999999"))
    said.append(run("configs", "--alter", "--broker", "1", "--add-config", "log.retention.ms=88888888"))
    run.until("log.retention.ms=99999999", "configs", "--describe", "--broker-defaults")
    said.append(run.until("log.retention.ms=88888888", "configs", "--describe", "--broker", "1"))
    said.append(run("configs", "--alter", "--broker", "1", "--delete-config", "log.retention.ms"))
    said.append(run("configs", "--alter", "--broker-defaults", "--delete-config", "log.retention.ms"))
    said.append(run("configs", "--alter", "--group", "tuned", "--add-config", "consumer.session.timeout.ms=50000"))
    said.append(run.until("50000", "configs", "--describe", "--group", "tuned"))
    said.append(run("configs", "--alter", "--group", "tuned", "--delete-config", "consumer.session.timeout.ms"))
    return said


def test_settings_are_described_and_changed_alike(ours: Commands, kafka: Commands) -> None:
    assert configs_script(ours, "tuned") == configs_script(kafka, "tuned")


def topics_script(run: Commands, topic: str, lines: str) -> list[object]:
    """Let a topic grow, and look at it and its files; return what was said, but for ids, sizes and paths."""
    run("topics", "--create", "--topic", topic, "--config", "segment.bytes=2000000")
    run("produce", "--topic", topic, "--file", lines)
    said: list[object] = [run("topics", "--alter", "--topic", topic, "--partitions", "3")]
    described = run.until("Partition: 2\tLeader: 1", "topics", "--describe", "--topic", topic)
    said.append(re.sub(r"TopicId: \S+", "", described))
    said.append(run("topics", "--alter", "--topic", topic, "--partitions", "3", status=1))
    of_topic = ("topics", "--describe", "--topic", topic)
    selections = ("under-replicated", "unavailable", "at-min-isr", "under-min-isr")
    said += [run(*of_topic, f"--{selection}-partitions") for selection in selections]
    said.append(re.sub(r"TopicId: \S+", "", run(*of_topic, "--topics-with-overrides")))
    told = json.loads(run.until(f"{topic}-2", "log-dirs", "--describe", "--topic-list", topic, "--json"))
    [broker] = told["brokers"]
    [directory] = broker["logDirs"]
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    said.append((told["version"], broker["broker"], directory["error"], sorted(sizes)))
    said.append(sorted(size > 0 for size in sizes.values()))
    head, *rows = run.rows("log-dirs", "--describe", "--broker-list", "1", "--topic-list", topic)
    assert [(row[2], row[3], row[4]) for row in rows] == [(topic, "3", str(sum(sizes.values())))]
    said.append(head)
    said.append(run("log-dirs", "--describe", "--broker-list", "1,7", status=1))
    return said


def test_topics_and_their_files_are_described_alike(ours: Commands, kafka: Commands, lines: str) -> None:
    assert topics_script(ours, "grown", lines) == topics_script(kafka, "grown", lines)


def test_the_quorum_is_described_alike(ours: Commands, kafka: Commands) -> None:
    def described(run: Commands) -> list[object]:
        status = [line.split(":")[0] for line in run("quorum", "describe").splitlines()]
        head, row = (line.split("\t") for line in run("quorum", "describe", "--replication").splitlines())
        told = json.loads(run("quorum", "describe", "--json"))
        return [status, head, row[0], row[-1], told["leader"], [voter["node_id"] for voter in told["voters"]]]

    assert described(ours) == described(kafka)


def test_kafka_s_tool_says_the_same_of_a_group_in_the_same_columns(
    ours: Commands, lines: str, kafka_tools: KafkaTools
) -> None:
    ours("topics", "--create", "--topic", "told", "--partitions", "2")
    ours("produce", "--topic", "told", "--file", lines)
    ours("consume", "--topic", "told", "--group", "told", "--from-beginning", "--max-messages", "20")
    for view in ((), ("--members",), ("--state", "--verbose")):
        arguments = ("--describe", "--group", "told", *view)
        done = kafka_tools.run("consumer-groups", "--bootstrap-server", ours.node.bootstrap, *arguments)
        rows = ours.rows("groups", *arguments)
        if "--state" in view:  # the last column is one more
            assert [row[-1] for row in rows] == ["TYPE", "Classic"]
            rows = [row[:-1] for row in rows]
        assert words(done.stdout) == rows, done.stderr
    ours("groups", "--delete", "--group", "told")


def offsets_script(run: Commands, topic: str, lines: str) -> list[object]:
    """Ask for offsets of a topic in every way; return what was said."""
    run("topics", "--create", "--topic", topic, "--partitions", "3")
    run("produce", "--topic", topic, "--property", "parse.key=true", "--file", lines)
    run.until(f"{topic}:2:", "get-offsets", "--topic", topic)
    asked = (
        ("--topic", topic),
        ("--topic", f"{topic[:-1]}."),
        ("--topic-partitions", f"{topic}:0-2", "--time", "earliest"),
        ("--topic", topic, "--partitions", "0,2", "--time", "-2"),
        ("--topic", topic, "--time", "0"),
        ("--topic", topic, "--time", "99999999999999"),
        ("--topic", topic, "--time", "earliest-local"),
    )
    return [run("get-offsets", *each).splitlines() for each in asked]


@pytest.mark.kafka
def test_offsets_are_told_alike_and_as_kafkas_tool_tells_them(
    ours: Commands, kafka: Commands, topic: str, lines: str, kafka_tools: KafkaTools
) -> None:
    said = offsets_script(ours, topic, lines)
    assert said == offsets_script(kafka, topic, lines)
    assert len(said[0]) == 3  # type: ignore[arg-type]
    for run in (ours, kafka):
        for arguments, printed in ((("--topic", topic), said[0]), (("--topic", topic, "--time", "0"), said[4])):
            done = kafka_tools.run("get-offsets", "--bootstrap-server", run.node.bootstrap, *arguments)
            assert done.stdout.splitlines() == printed


def elections_script(run: Commands, topic: str, directory: Path) -> list[object]:
    """Elect leaders where all is as it should be, and where there is nothing; return what was said."""
    run("topics", "--create", "--topic", topic, "--partitions", "2")
    run.until("Leader: 1", "topics", "--describe", "--topic", topic)
    file = directory / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": number} for number in range(2)]}))
    preferred = ("leader-election", "--election-type", "preferred")
    missing = json.dumps({"partitions": [{"topic": "missing", "partition": 0}]})
    (directory / "missing.json").write_text(missing)
    return [
        run(*preferred, "--topic", topic, "--partition", "0"),
        sorted(run(*preferred, "--path-to-json-file", str(file)).rpartition("partitions ")[2].strip().split(", ")),
        run(*preferred, "--all-topic-partitions"),
        run("leader-election", "--election-type", "UNCLEAN", "--topic", topic, "--partition", "1"),
        json.loads(run(*preferred, "--topic", topic, "--partition", "1", "--json"))[0]["error"],
        run(*preferred, "--path-to-json-file", str(directory / "missing.json"), status=1),
    ]


@pytest.mark.kafka
def test_leaders_are_elected_alike(ours: Commands, kafka: Commands, topic: str, tmp_path: Path) -> None:
    said = elections_script(ours, topic, tmp_path)
    assert said == elections_script(kafka, topic, tmp_path)
    assert said[0] == f"Valid replica already elected for partitions {topic}-0\n"
    assert said[1] == [f"{topic}-0", f"{topic}-1"]


def test_records_are_deleted_alike(ours: Commands, kafka: Commands, lines: str, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    file.write_text('{"partitions": [{"topic": "cut", "partition": 0, "offset": 7}], "version": 1}')

    def script(run: Commands) -> list[str]:
        run("topics", "--create", "--topic", "cut", "--partitions", "1")
        run("produce", "--topic", "cut", "--file", lines)
        return [
            run("delete-records", "--offset-json-file", str(file)),
            run("delete-records", "--topic", "cut", "--before", "1000", status=1),
            run("get-offsets", "--topic", "cut", "--time", "earliest"),
            run("delete-records", "--topic", "cut", "--before", "all"),
            run("consume", "--topic", "cut", "--from-beginning", "--timeout-ms", "500"),
        ]

    said = script(ours)
    assert said == script(kafka)
    assert said[0].endswith("partition: cut-0\tlow_watermark: 7\n")
    assert "OFFSET_OUT_OF_RANGE" in said[1]
    assert said[2] == "cut:0:7\n"
    assert said[3].endswith(f"low_watermark: {RECORDS}\n")
    assert said[4] == ""
