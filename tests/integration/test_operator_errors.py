"""What an operator gets wrong ends the node with a status that is not 0 and a message that names the thing and the remedy."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from esp.testing.node_process import HOST, NodeError, NodeProcess
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA, NodeFactory

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own messages")


def refusal(node: NodeProcess) -> str:
    """Start a node that cannot run and return its message: two parts, problem and remedy, and no traceback."""
    node.stderr_path.unlink(missing_ok=True)
    with pytest.raises(NodeError):
        node.start()
    assert node.exit_status == 1
    message = node.stderr_path.read_text()
    assert "Traceback" not in message, message
    assert "esp broker: " in message
    return message


def run_broker(*arguments: str) -> str:
    """Run ``esp broker`` with arguments that it cannot run with, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "esp", "broker", *arguments], capture_output=True, text=True, timeout=20
    )
    assert done.returncode not in (0, None), done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr


BAD_SETTINGS = {
    "log.segment.bytes": "many",
    "num.partitions": "0",
    "log.retention.ms": "0",
    "node.id": "one",
    "listeners": "nonsense",
    "process.roles": "broker",
    "controller.quorum.voters": "1@127.0.0.1:9093,2@127.0.0.1:9094",
    "metrics.listener": "9308",
    "log.cleanup.policy": "burn",
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_value_of_a_setting_is_named(tmp_path: Path, name: str) -> None:
    config = tmp_path / "server.properties"
    config.write_text(f"log.dirs={tmp_path / 'data'}\n{name}={BAD_SETTINGS[name]}\n")
    message = run_broker("--config", str(config))
    assert name in message
    assert BAD_SETTINGS[name] in message
    assert not (tmp_path / "data").exists()


def test_missing_settings_file_is_named(tmp_path: Path) -> None:
    assert str(tmp_path / "none.properties") in run_broker("--config", str(tmp_path / "none.properties"))


def test_settings_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    config.write_bytes(b"\xff\xfe\x00garbage")
    assert str(config) in run_broker("--config", str(config))


def test_set_without_a_value_is_named(tmp_path: Path) -> None:
    assert "num.partitions" in run_broker("--data-dir", str(tmp_path / "data"), "--set", "num.partitions")


def test_directory_of_another_node_is_refused(fresh_node: NodeFactory, tmp_path: Path) -> None:
    node = fresh_node()
    node.stop()
    node.settings["node.id"] = "2"
    message = refusal(node)
    assert str(node.data_dir) in message
    assert "belongs to node 1" in message


def test_directory_of_another_cluster_is_refused(fresh_node: NodeFactory, tmp_path: Path) -> None:
    dirs = {name: [tmp_path / name / disk for disk in ("a", "b")] for name in ("one", "two")}
    for name, paths in dirs.items():
        fresh_node({"log.dirs": ",".join(map(str, paths))}, name=name).stop()
    mixed = fresh_node({"log.dirs": f"{dirs['one'][0]},{dirs['two'][1]}"}, name="mixed", start=False)
    message = refusal(mixed)
    assert str(dirs["two"][1]) in message
    assert "belongs to cluster" in message


def test_directory_in_use_is_refused_and_its_node_goes_on(fresh_node: NodeFactory) -> None:
    node = fresh_node()
    intruder = fresh_node({"log.dirs": str(node.data_dir)}, name="intruder", start=False)
    message = refusal(intruder)
    assert f"{node.data_dir} is in use" in message
    node.restart()


def test_port_in_use_is_refused(fresh_node: NodeFactory) -> None:
    node = fresh_node(start=False)
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind((HOST, node.port))
        taken.listen()
        assert str(node.port) in refusal(node)
    node.start()


def test_address_of_another_host_is_refused(fresh_node: NodeFactory) -> None:
    node = fresh_node({"listeners": f"PLAINTEXT://192.0.2.1:{free_port()}"}, start=False)
    assert "192.0.2.1" in refusal(node)


def test_file_in_place_of_the_directory_is_refused(fresh_node: NodeFactory, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    node = fresh_node({"log.dirs": str(tmp_path / "file")}, start=False)
    assert str(tmp_path / "file") in refusal(node)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_without_permission_is_refused(fresh_node: NodeFactory, tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    node = fresh_node({"log.dirs": str(closed)}, start=False)
    assert str(closed) in refusal(node)


def test_directory_where_nothing_can_be_written_is_refused(fresh_node: NodeFactory) -> None:
    node = fresh_node({"log.dirs": "/proc/esp-data"}, start=False)
    assert "/proc/esp-data" in refusal(node)
