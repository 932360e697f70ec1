import subprocess
import sys

import pytest

from esp.cli import topics as topics_module
from esp.cli.app import run_tools
from esp.cli.kafka_answers import PartitionInfo, TopicError, TopicInfo
from esp.model.errors import ErrorCode

DEAD = ["--bootstrap-server", "127.0.0.1:1"]


def run_ok(capsys, *arguments):
    assert run_tools(arguments) == 0
    return capsys.readouterr().out


def run_refused(capsys, *arguments):
    assert run_tools(arguments) == 1
    return capsys.readouterr().err


def test_help_lists_every_command_and_teaches_by_example(capsys):
    told = run_ok(capsys, "--help")
    for word in ("broker", "topics", "produce", "consume", "echo hello | esp produce"):
        assert word in told


@pytest.mark.parametrize("command", ["topics", "produce", "consume"])
def test_every_tool_shows_examples(capsys, command):
    told = run_ok(capsys, command, "--help")
    assert "Examples" in told
    assert f"esp {command} --" in told
    assert "--bootstrap-server" in told


@pytest.mark.parametrize(
    "arguments", [["--bogus"], ["topics", "--bogus"], ["nope"], ["produce"], ["consume", "--topic"]]
)
def test_misuse_has_status_2_and_says_what_is_wrong(capsys, arguments):
    assert run_tools(arguments) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["topics"], "one of --create"),
        (["topics", "--list", "--delete", "--topic", "t"], "one of --create"),
        (["topics", "--create"], "--topic"),
        (["topics", "--delete"], "--topic"),
        (["topics", "--alter", "--topic", "t"], "--partitions"),
        (["topics", "--describe", "--config", "a=b"], "--create only"),
        (["topics", "--create", "--topic", "t", "--config", "retention.ms"], "name=value"),
        (["produce", "--topic", "t", "--request-required-acks", "2"], "all, 1 or 0"),
        (["produce", "--topic", "t", "--property", "parse.kye=true"], "parse.key"),
        (["produce", "--topic", "t", "--producer-property", "nope=1"], "--producer-property nope=1"),
        (["produce", "--topic", "t", "--file", "/does/not/exist"], "/does/not/exist"),
        (["consume", "--topic", "t", "--offset", "yesterday"], "yesterday"),
        (["consume", "--topic", "t", "--offset", "5"], "--partition"),
        (["consume", "--topic", "t", "--offset", "5", "--from-beginning"], "different things"),
        (["consume", "--topic", "t", "--property", "print.kye=true"], "print.key"),
        (["topics", "--list", *DEAD], "no broker answers at 127.0.0.1:1"),
        (["consume", "--topic", "t", *DEAD], "no broker answers at 127.0.0.1:1"),
        (["produce", "--topic", "t", "--file", "/dev/null", *DEAD], "no broker answers at 127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_has_status_1_and_a_line_that_names_it_and_a_remedy(capsys, arguments, word):
    told = run_refused(capsys, *arguments)
    assert word in told
    assert told.count("\n") == 2
    assert "Traceback" not in told


class FakeAdmin:
    """Stands for a cluster with topics a-1, a-2 and an internal one."""

    known = tuple(
        TopicInfo(name, "AAAAAAAAAAAAAAAAAAAAAQ", name.startswith("__"), (PartitionInfo(0, 1, (1, 2), (1,)),))
        for name in ("__offsets", "a-1", "a-2")
    )

    def __init__(self, servers):
        self.calls = FakeAdmin.calls = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def topics(self):
        return list(self.known)

    def topic_overrides(self, names):
        return {name: {"retention.ms": "5"} if name == "a-1" else {} for name in names}

    def create_topic(self, name, *arguments):
        if name == "a-1":
            raise TopicError(ErrorCode.topic_already_exists, "Topic 'a-1' already exists.")
        self.calls.append((name, *arguments))

    def delete_topic(self, name):
        self.calls.append(name)

    def grow_topic(self, name, partitions):
        raise TopicError(ErrorCode.invalid_partitions, f"{name} has {partitions} already")


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(topics_module, "Admin", FakeAdmin)
    return FakeAdmin


def test_topics_are_listed(cluster, capsys):
    assert run_ok(capsys, "topics", "--list") == "__offsets\na-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--exclude-internal") == "a-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--topic", "a.*") == "a-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--json") == '["__offsets","a-1","a-2"]\n'


def test_a_topic_is_described_in_kafka_s_words(cluster, capsys):
    assert run_ok(capsys, "topics", "--describe", "--topic", "a-1") == (
        "Topic: a-1\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: retention.ms=5\n"
        "\tTopic: a-1\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    )
    assert '"configs":{"retention.ms":"5"}' in run_ok(capsys, "topics", "--describe", "--topic", "a-1", "--json")


def test_a_topic_is_created_with_what_was_given(cluster, capsys):
    created = run_ok(
        capsys, "topics", "--create", "--topic", "new", "--partitions", "3", "--config", "a=1", "--config", "b=2=3"
    )
    assert created == "Created topic new.\n"
    assert cluster.calls == [("new", 3, -1, {"a": "1", "b": "2=3"})]


def test_creating_what_is_there_is_an_error_unless_it_may_be_there(cluster, capsys):
    told = run_refused(capsys, "topics", "--create", "--topic", "a-1")
    assert "Topic 'a-1' already exists." in told
    assert "--if-not-exists" in told
    assert run_ok(capsys, "topics", "--create", "--topic", "a-1", "--if-not-exists") == ""


def test_deleting_takes_a_name_or_a_regular_expression(cluster, capsys):
    run_ok(capsys, "topics", "--delete", "--topic", "a-[12]")
    assert cluster.calls == ["a-1", "a-2"]


def test_what_is_not_there_is_an_error_unless_it_may_be_missing(cluster, capsys):
    for action in ("--delete", "--describe"):
        assert "there is no topic nope" in run_refused(capsys, "topics", action, "--topic", "nope")
        assert run_ok(capsys, "topics", action, "--topic", "nope", "--if-exists") == ""
    assert "regular expression" in run_refused(capsys, "topics", "--delete", "--topic", "(")


def test_a_refusal_to_grow_is_told(cluster, capsys):
    told = run_refused(capsys, "topics", "--alter", "--topic", "a-1", "--partitions", "2")
    assert "a-1 has 2 already" in told


def test_the_broker_command_loads_nothing_of_the_tools():
    program = (
        "import sys; sys.argv = ['esp', 'broker', '--help']\n"
        "from esp.__main__ import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0\n"
        "loaded = {'typer', 'rich', 'kafka'} & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--data-dir" in done.stdout


def test_the_package_can_be_run_as_a_program():
    done = subprocess.run([sys.executable, "-m", "esp", "topics"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("esp: esp topics takes one of")
