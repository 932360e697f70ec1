import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from esp.__main__ import _NODE_COMMANDS
from esp.cli.app import app, run_tools
from esp.cli.node import cluster
from esp.model.ids import NodeId, TopicPartition
from esp.placement.intents import Drain
from esp.placement.limits import Limits
from esp.rebalance.plan_file import write_plan
from esp.rebalance.planning import plan_for
from tests.models.fake_cluster import FakeCluster

DEAD = ["--bootstrap-server", "127.0.0.1:1"]


def run_ok(capsys, *arguments):
    assert run_tools(arguments) == 0
    return capsys.readouterr().out


def run_refused(capsys, *arguments):
    assert run_tools(arguments) == 1
    return capsys.readouterr().err


def test_help_lists_every_command_and_teaches_by_example(capsys):
    told = run_ok(capsys, "--help")
    for word in ("broker", "topics", "configs", "groups", "log-dirs", "produce", "consume", "echo hello | esp produce"):
        assert word in told


def test_version_is_that_of_the_package(capsys):
    declared = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]["version"]
    assert run_ok(capsys, "--version") == f"esp {declared}\n"


@pytest.mark.parametrize("command", ["topics", "configs", "groups", "log-dirs", "produce", "consume"])
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
        (["configs", "--describe", "--alter"], "one of --describe, --alter"),
        (["configs", "--describe"], "one of --entity-type"),
        (["configs", "--describe", "--topic", "t", "--broker", "1"], "one of --entity-type"),
        (["configs", "--describe", "--topic", "t", "--add-config", "a=b"], "--alter"),
        (["configs", "--alter", "--entity-type", "topics", "--add-config", "a=b"], "--entity-name"),
        (["configs", "--alter", "--topic", "t"], "--add-config"),
        (["configs", "--alter", "--topic", "t", "--add-config", "a"], "name=value"),
        (["configs", "--alter", "--topic", "t", "--add-config", "a=b", "--delete-config", "a"], "both"),
        (["configs", "--alter", "--topic", "t", "--add-config-file", "/does/not/exist"], "/does/not/exist"),
        (["configs", "--describe", "--entity-type", "topics", "--entity-default"], "for brokers"),
        (["configs", "--describe", "--broker", "one"], "not a broker id"),
        (["groups"], "one of --list"),
        (["groups", "--describe"], "--group or --all-groups"),
        (["groups", "--describe", "--group", "g", "--members", "--state"], "exclude each other"),
        (["groups", "--delete-offsets", "--group", "g"], "--topic"),
        (["groups", "--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"], "one group"),
        (["groups", "--reset-offsets", "--group", "g", "--topic", "t"], "one of --to-earliest"),
        (["groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-latest", "--to-offset", "0"], "one of"),
        (["groups", "--reset-offsets", "--group", "g", "--to-latest"], "--topic or --all-topics"),
        (["groups", "--reset-offsets", "--group", "g", "--topic", "t", "--by-duration", "1 day"], "PnDTnHnMnS"),
        (["groups", "--reset-offsets", "--group", "g", "--topic", "t", "--to-datetime", "now"], "--to-datetime now"),
        (["log-dirs"], "--describe"),
        (["log-dirs", "--describe", "--broker-list", "1,x"], "not broker ids"),
        (["consume", "--topic", "t", "--group", "g", "--partition", "0"], "--partition"),
        (["groups", "--list", *DEAD], "no broker answers at 127.0.0.1:1"),
        (["produce", "--topic", "t", "--request-required-acks", "2"], "all, 1 or 0"),
        (["produce", "--topic", "t", "--property", "parse.kye=true"], "parse.key"),
        (["produce", "--topic", "t", "--producer-property", "nope=1"], "--producer-property nope=1"),
        (["produce", "--topic", "t", "--file", "/does/not/exist"], "/does/not/exist"),
        (["consume", "--topic", "t", "--offset", "yesterday"], "yesterday"),
        (["consume", "--topic", "t", "--offset", "5"], "--partition"),
        (["consume", "--topic", "t", "--offset", "5", "--from-beginning"], "exclude each other"),
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


def test_shells_complete_commands_and_options():
    def completed(words):
        done = subprocess.run(
            [sys.executable, "-m", "esp"],
            capture_output=True,
            text=True,
            env={
                **os.environ,
                "_ESP_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(words.count(" ")),
            },
        )
        return done.stdout.split()

    assert completed("esp gro") == ["groups"]
    assert completed("esp groups --reset") == ["--reset-offsets"]


TOOLS = [
    *("topics", "configs", "groups", "log-dirs", "produce", "consume", "get-offsets", "leader-election", "quorum"),
    *("reassign-partitions", "doctor", "doctor what-if", "brokers list", "brokers drain", "brokers undrain"),
    *("brokers remove", "rebalance plan", "rebalance apply", "rebalance status", "rebalance pause"),
    *("rebalance resume", "rebalance cancel", "rebalance rollback", "delete-records"),
]


@pytest.mark.parametrize("command", TOOLS)
def test_every_tool_that_asks_a_cluster_takes_a_file_of_client_settings(capsys, command):
    assert "--command-config" in run_ok(capsys, *command.split(), "--help")


def test_file_of_client_settings_is_read_before_anything_is_asked(capsys, tmp_path):
    told = run_refused(capsys, "topics", "--list", *DEAD, "--command-config", str(tmp_path / "nothing"))
    assert "cannot be read" in told
    (tmp_path / "secure").write_text("security.protocol=SASL_SSL\n")
    told = run_refused(capsys, "topics", "--list", *DEAD, "--command-config", str(tmp_path / "secure"))
    assert "secure: security.protocol=SASL_SSL needs sasl.mechanism" in told


def test_output_that_takes_no_more_is_told_in_a_line():
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-m", "esp", "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("esp: standard output cannot be written: No space left on device\n")
    assert done.stderr.count("\n") == 2


def command_paths(command, *path):
    """All commands of the tools below one, itself included."""
    yield path
    for name, below in getattr(command, "commands", {}).items():
        yield from command_paths(below, *path, name)


NODE_COMMANDS = ["broker", "format", "random-uuid", "cluster", "cluster start", "cluster restart-node"]
NODE_COMMANDS += ["cluster add-node", "cluster status"]
TELLING = [
    *(" ".join((*path, "--help")) for path in command_paths(typer.main.get_command(app))),
    *(f"{command} --help" for command in NODE_COMMANDS),
    "--version",
]


def test_the_commands_that_run_nodes_are_all_known_here():
    assert {command.split()[0] for command in NODE_COMMANDS} == set(_NODE_COMMANDS)
    [below] = [action for action in cluster.build_parser()._actions if isinstance(action.choices, dict)]
    assert {f"cluster {name}" for name in below.choices} == {each for each in NODE_COMMANDS if " " in each}


@pytest.mark.parametrize("told", TELLING)
def test_help_that_cannot_be_written_is_an_error(told):
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "esp", *told.split()]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("esp: standard output cannot be written: No space left on device\n")


def test_reader_that_has_seen_enough_is_no_mistake():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as nobody:
        done = subprocess.run([sys.executable, "-m", "esp", "--help"], stdout=nobody, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.parametrize(
    "arguments", [["topics", "--list"], ["produce", "--topic", "t", "--file", "/dev/zero"], ["doctor"]]
)
def test_ctrl_c_ends_a_tool_in_a_line(arguments):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        with subprocess.Popen(
            [sys.executable, "-m", "esp", *arguments, "--bootstrap-server", at],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as tool:
            try:
                with silent.accept()[0]:  # the client waits for an answer
                    tool.send_signal(signal.SIGINT)
                    out, told = tool.communicate(timeout=20)
            finally:
                tool.kill()
    assert (tool.returncode, out, told) == (130, "", "esp: interrupted\n")


def test_an_interruption_that_a_library_takes_for_a_failed_connection_is_one_all_the_same():
    program = (
        "import os, signal\n"
        "from contextlib import suppress\n"
        "from unittest.mock import patch\n"
        "from esp.__main__ import main\n"
        "from esp.model.errors import OperatorError\n"
        "def connect(*_arguments, **_settings):\n"
        "    with suppress(KeyboardInterrupt):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    raise OperatorError('no broker answers', 'Start one.')\n"
        "with patch('esp.cli.kafka.producer.connect', connect):\n"
        "    main()\n"
    )
    command = [sys.executable, "-c", program, "produce", "--topic", "t", "--file", "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "esp: interrupted\n")


def test_a_command_that_ends_after_a_library_swallowed_an_interruption_was_interrupted():
    program = (
        "import os, signal, sys\n"
        "from contextlib import suppress\n"
        "from unittest.mock import patch\n"
        "from esp.__main__ import main\n"
        "def run(_arguments):\n"
        "    with suppress(KeyboardInterrupt):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    print('done')\n"
        "    return 0\n"
        "with patch('esp.cli.app.run_tools', run):\n"
        "    main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program, "topics"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "done\n", "esp: interrupted\n")


def test_plan_for_which_there_is_no_room_leaves_nothing_behind(tmp_path):
    program = (
        "import resource, sys\n"
        "from esp.rebalance.plan_file import read_plan, write_plan\n"
        "from esp.model.errors import OperatorError\n"
        "plan = read_plan(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))\n"
        "try:\n    write_plan(sys.argv[2], plan)\nexcept OperatorError as error:\n    print(error.problem)\n"
    )
    cluster = FakeCluster((1, 2, 3), {TopicPartition("t", 0): (1, 2)}, {TopicPartition("t", 0): 1})
    write_plan(str(tmp_path / "plan"), plan_for(cluster, Drain((NodeId(1),)), Limits(), 0, 7))
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "plan", tmp_path / "copy"], capture_output=True, text=True
    )
    assert done.stdout == f"{tmp_path}/copy cannot be written: File too large\n", done.stderr
    assert not (tmp_path / "copy").exists()


def test_a_node_without_encrypted_listeners_loads_nothing_of_their_libraries(tmp_path):
    program = (
        "import asyncio, sys\n"
        "from esp.broker.app import BrokerNode\n"
        "from esp.runtime.env import real_env\n"
        "from esp.settings.node import load_broker_settings\n"
        "async def run():\n"
        f"    settings = load_broker_settings(None, ['log.dirs={tmp_path}', 'listeners=PLAINTEXT://127.0.0.1:0'])\n"
        "    node = BrokerNode(real_env(), settings)\n"
        "    await node.start()\n"
        "    await node.stop()\n"
        "asyncio.run(run())\n"
        "wanted = {'cryptography', 're2', 'esp.runtime.tls', 'esp.broker.connections.certificate_principals'}\n"
        "loaded = wanted & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_interrupted", [True, False])
def test_an_error_that_ctrl_c_has_left_behind_is_no_error(monkeypatch, is_interrupted):
    def fail(*_arguments, **_options):
        raise RuntimeError("Concurrent access to net.poll!")

    monkeypatch.setattr("esp.cli.app.app", fail)
    monkeypatch.setattr("esp.cli.app.was_interrupted", lambda: is_interrupted)
    if is_interrupted:
        assert run_tools(["topics", "--list"]) == 130
    else:
        with pytest.raises(RuntimeError):
            run_tools(["topics", "--list"])
