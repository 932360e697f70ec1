"""``esp cluster``: several nodes started and ended together, none left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from esp.testing.ports import free_port
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.conftest import eventually

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="our own command")

NODES = 3


def esp(*arguments: str | Path | int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "esp", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


class Running:
    """A cluster that ``esp cluster start`` runs."""

    def __init__(self, directory: Path, port: int, arguments: Sequence[str]) -> None:
        self.directory = directory
        self.port = port
        self.process = subprocess.Popen(
            [sys.executable, "-m", "esp", "cluster", "start", "--dir", str(directory), "--port", str(port), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()

    def pids(self) -> list[int]:
        return [entry["pid"] for entry in json.loads((self.directory / "cluster.json").read_text())]


Start = Callable[..., Running]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a cluster; it is killed after the test, and its nodes with it."""
    made: list[Running] = []

    def make(*arguments: str, port: int | None = None) -> Running:
        made.append(Running(tmp_path / "cluster", port or free_port(), arguments))
        return made[-1]

    yield make
    for running in made:
        running.process.kill()
        running.process.communicate()


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cluster_is_ready_with_one_line_and_gone_in_order(start: Start) -> None:
    running = start("--nodes", str(NODES))
    addresses = [f"127.0.0.1:{running.port + number}" for number in range(NODES)]
    assert running.ready == f"ready bootstrap={','.join(addresses)}\n"
    entries = json.loads((running.directory / "cluster.json").read_text())
    assert [f"{entry['host']}:{entry['port']}" for entry in entries] == addresses
    assert [entry["node_id"] for entry in entries] == [1, 2, 3]
    assert all(Path(entry["dir"]).is_dir() and lives(entry["pid"]) for entry in entries)
    client = AdminClient({"bootstrap.servers": addresses[1]})

    def told() -> set[str]:
        return {f"{broker.host}:{broker.port}" for broker in client.list_topics(timeout=10).brokers.values()}

    # Each node serves, and the one that is asked may hear a moment later that another one does.
    eventually(lambda: told() == set(addresses), 10)
    status = esp("cluster", "status", "--dir", running.directory)
    assert status.returncode == 0
    assert status.stdout.count("running") == NODES
    running.process.terminate()
    assert running.process.wait(40) == 0
    assert not any(map(lives, running.pids()))
    for number in range(1, NODES + 1):
        log = (running.directory / f"node-{number}.log").read_text()
        assert "clean shutdown completed" in log, log
        assert (running.directory / f"node-{number}" / ".kafka_cleanshutdown").exists()
    assert esp("cluster", "status", "--dir", running.directory).returncode == 1


def test_topics_get_three_replicas_of_which_two_must_be_in_sync(start: Start) -> None:
    running = start("--nodes", str(NODES), "--rack-per-node")
    server = ("--bootstrap-server", f"127.0.0.1:{running.port}")
    assert esp("topics", "--create", "--topic", "t", *server).returncode == 0
    described = esp("topics", "--describe", "--topic", "t", *server).stdout
    assert "ReplicationFactor: 3" in described
    assert re.search(r"min\.insync\.replicas=2", (running.directory / "node-1.properties").read_text())
    assert "broker.rack=rack-2" in (running.directory / "node-2.properties").read_text()


def test_nobody_is_left_behind_when_the_keeper_is_killed(start: Start) -> None:
    running = start("--nodes", str(NODES))
    pids = running.pids()
    running.process.kill()
    running.process.wait()
    eventually(lambda: not any(map(lives, pids)), 40)


def test_a_node_that_died_is_started_again(start: Start) -> None:
    running = start("--nodes", str(NODES))
    refused = esp("cluster", "restart-node", "--dir", running.directory, "2")
    assert refused.returncode == 1
    assert "Node 2 runs" in refused.stderr
    victim = running.pids()[1]
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: esp("cluster", "status", "--dir", running.directory).returncode == 1)
    again = esp("cluster", "restart-node", "--dir", running.directory, "2")
    assert again.returncode == 0, again.stderr
    assert running.pids()[1] not in (0, victim)
    eventually(lambda: esp("cluster", "status", "--dir", running.directory).returncode == 0)
    assert esp("cluster", "restart-node", "--dir", running.directory, "9").returncode == 1


def test_a_cluster_is_found_again_with_its_topics(start: Start) -> None:
    running = start("--nodes", str(NODES))
    server = ("--bootstrap-server", f"127.0.0.1:{running.port}")
    assert esp("topics", "--create", "--topic", "kept", *server).returncode == 0
    running.process.terminate()
    assert running.process.wait(40) == 0
    moved = esp("cluster", "start", "--dir", running.directory, "--port", running.port + 1)
    assert "have the ports from" in moved.stderr
    again = start(port=running.port)
    assert again.ready.count(":") == NODES, "as many nodes as there were"
    assert esp("topics", "--list", *server).stdout == "kept\n"


def test_what_cannot_be_started_is_told_and_nothing_is_left(start: Start, tmp_path: Path) -> None:
    running = start("--nodes", "1")
    assert running.ready
    for arguments, words in (
        (("--dir", running.directory), "runs in"),
        (("--dir", tmp_path / "other", "--port", str(running.port)), "cannot listen"),
        (("--dir", tmp_path / "other", "--nodes", "0"), "at least one"),
        (("--dir", tmp_path / "other", "--set", "node.id=4"), "node.id"),
        (("--dir", tmp_path / "other", "--port", str(free_port()), "--set", "num.partitions=x"), "num.partitions"),
    ):
        began = time.monotonic()
        done = esp("cluster", "start", *arguments)
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert time.monotonic() - began < 20


def test_voter_is_removed_and_added_again(start: Start) -> None:
    cluster = start("--nodes", str(NODES))
    at = ("--bootstrap-server", f"127.0.0.1:{cluster.port}")

    def voters() -> list[int]:
        return sorted(each["node_id"] for each in json.loads(esp("quorum", "describe", *at, "--json").stdout)["voters"])

    assert voters() == [1, 2, 3]
    tried = esp("quorum", "remove-controller", "-i", 3, "--dry-run", *at)
    assert tried.stdout.startswith("DRY RUN of removing KRaft controller 3 with directory id "), tried
    assert voters() == [1, 2, 3]
    assert esp("quorum", "remove-controller", "-i", 3, *at).returncode == 0
    eventually(lambda: voters() == [1, 2])
    again = esp("quorum", "remove-controller", "-i", 3, *at)
    assert again.returncode == 1
    assert "node 3 is not a voter" in again.stderr
    added = esp("quorum", "add-controller", "--config", cluster.directory / "node-3.properties", *at)
    assert added.stdout.startswith("Added controller 3 with directory id "), added
    eventually(lambda: voters() == [1, 2, 3])
    twice = esp("quorum", "add-controller", "--config", cluster.directory / "node-3.properties", *at)
    assert (twice.returncode, "Node 3 is a voter already" in twice.stderr) == (1, True)


def test_node_is_added_while_the_cluster_runs_and_stays_a_part_of_it(start: Start) -> None:
    cluster = start("--nodes", str(NODES), "--set", "num.partitions=7")
    at = ("--bootstrap-server", f"127.0.0.1:{cluster.port}")
    added = esp("cluster", "add-node", "--dir", cluster.directory)
    assert re.fullmatch(rf"ready node=4 listening=127.0.0.1:{cluster.port + 3} pid=\d+\n", added.stdout), added
    assert len(cluster.pids()) == NODES + 1
    assert esp("cluster", "status", "--dir", cluster.directory).returncode == 0

    def alive() -> list[int]:
        rows = json.loads(esp("brokers", "list", *at, "--json").stdout)
        return [row["id"] for row in rows if row["state"] == "alive"]

    eventually(lambda: alive() == [1, 2, 3, 4])
    assert "num.partitions=7" in (cluster.directory / "node-4.properties").read_text()
    cluster.process.send_signal(signal.SIGTERM)
    assert cluster.process.wait(timeout=60) == 0
    again = start(port=cluster.port)
    assert again.ready.count("127.0.0.1:") == NODES + 1, again.ready
