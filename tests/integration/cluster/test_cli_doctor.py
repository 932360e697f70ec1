"""``esp doctor`` as users run it, on our cluster and on Kafka's: what it finds there is there, and what it predicts comes true."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.cli.kafka.configs import ConfigsAdmin, ResourceType
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.real_kafka import RealKafka
from tests.integration.cluster.observer import Observer
from tests.integration.conftest import eventually

pytestmark = pytest.mark.timeout(240)

NOT_OURS = "disk-filling,disk-full"
"""Rules about the machine that the test runs on."""
WITHIN_S = 60.0
COMMAND_TIMEOUT_S = 60.0
THROTTLED = "leader.replication.throttled.replicas"
TOPICS = {
    "sound": ([[1, 2, 3], [2, 3, 1], [3, 1, 2]], "2"),
    "lone": ([[2], [1]], "1"),
    "tight": ([[2, 3], [3, 1]], "2"),
    "loose": ([[2, 1]], "1"),
}
"""Where the partitions of each topic are, and its ``min.insync.replicas``."""


class Patient:
    """A cluster of three with topics of which some are badly made, and the doctor that looks at it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.observer = Observer(cluster)

    @property
    def bootstrap(self) -> str:
        """The nodes that run."""
        return ",".join(f"{node.host}:{node.port}" for node in self.cluster.nodes.values() if node.is_running)

    def doctor(self, *arguments: str) -> tuple[int, Any]:
        """The exit status, and what was told in JSON."""
        command = [sys.executable, "-m", "esp", "doctor", *arguments, "--json", "--bootstrap-server", self.bootstrap]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)
        return done.returncode, json.loads(done.stdout or "null")

    def findings(self) -> dict[str, set[str]]:
        """The names of the places by the names of the rules."""
        _, told = self.doctor("--skip", NOT_OURS)
        return {each["rule"]: {place["name"] for place in each["places"]} for each in told["findings"]}

    def make_topics(self) -> None:
        """Make what is to be found."""
        new = [
            NewTopic(name, len(replicas), replica_assignment=replicas, config={"min.insync.replicas": min_isr})
            for name, (replicas, min_isr) in TOPICS.items()
        ]
        self.observer.make_all(new)
        for name in TOPICS:
            self.observer.wait_until_whole(name)
        with ConfigsAdmin(self.bootstrap) as admin:
            admin.alter(ResourceType.TOPIC, "sound", {THROTTLED: "0:1"}, [])


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.kafka)])
def patient(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """Each of the two."""
    options: dict[str, Any] = {}
    if request.param == "kafka":
        tools: KafkaTools = request.getfixturevalue("kafka_tools")
        options["make_node"] = partial(RealKafka, tools=tools, heap="256m")
    with Cluster(tmp_path_factory.mktemp("patient"), **options) as cluster:
        yield Patient(cluster)


def test_what_is_badly_made_is_found_and_what_is_predicted_comes_true(patient: Patient) -> None:
    patient.make_topics()
    badly_made = {
        "single-copy": {"lone"},
        "min-isr-equals-copies": {"tight"},
        "min-isr-one": {"loose"},
        "throttle-left-behind": {"sound"},
    }
    eventually(lambda: patient.findings() == badly_made, WITHIN_S)
    assert patient.doctor("--skip", NOT_OURS)[0] == 0

    status, told = patient.doctor("what-if", "--broker", "2", "down")
    assert status == 1
    fates = {(each["topic"], each["partition"]): each for each in told["partitions"]}
    assert {name for name, fate in fates.items() if fate["goes_offline"]} == {("lone", 0)}
    assert {name for name, fate in fates.items() if fate["stops"]} == {("tight", 0)}
    assert {name for name, fate in fates.items() if fate["is_last_copy"]} == {("tight", 0), ("loose", 0)}
    assert {load["broker"]: load["leaders_after"] for load in told["loads"]} == {1: 3, 3: 4}
    assert (told["quorum"]["left"], told["quorum"]["is_lost"]) == ([1, 3], False)

    patient.cluster.nodes[2].kill()
    for (topic, number), fate in fates.items():

        def has_come_true(topic: str = topic, number: int = number, fate: Any = fate) -> bool:
            now = patient.observer.partitions(topic)[number]
            if fate["leader_after"] is None:
                return now.leader == -1
            return (now.leader, now.isr) == (fate["leader_after"], set(fate["isr_after"]))

        eventually(has_come_true, WITHIN_S)
    stopped = {
        "offline-partition": {"lone-0"},
        "under-min-isr": {"tight-0"},
        "broker-fenced": {"2"},
        "at-min-isr": {"sound-0", "sound-1", "sound-2", "loose-0"},
        "offline-replica": {"sound-0", "sound-1", "sound-2", "lone-0", "tight-0", "loose-0"},
        "quorum-voter-lagging": {"2"},
        "quorum-without-spare": {""},
    }
    eventually(lambda: stopped.items() <= patient.findings().items(), WITHIN_S)
    assert patient.doctor("--skip", NOT_OURS)[0] == 1


LOOKS = (
    ("topics", "--list"),
    ("topics", "--describe"),
    ("brokers", "list"),
    ("groups", "--list"),
    ("groups", "--describe", "--group", "readers"),
    ("quorum", "describe"),
    ("quorum", "describe", "--replication"),
    ("doctor", "--skip", NOT_OURS),
)
"""The commands that an operator asks first when something is wrong."""

START_S = 10.0
"""More than a command takes for everything but waiting, on a machine that is busy with other tests."""


@pytest.mark.parametrize("are_hung", [False, True], ids=["killed", "hung"])
def test_one_of_three_voters_tells_what_is_known_at_once(tmp_path: Path, are_hung: bool) -> None:
    """The broker that is left looks for a controller for half a minute; the tools do not wait for it, nor for nodes that hang."""
    with Cluster(tmp_path) as cluster:
        patient = Patient(cluster)
        patient.observer.make_all([NewTopic("t", 3, 3)])
        commit("readers", cluster.bootstrap)
        for number in (1, 2):
            cluster.nodes[number].pause() if are_hung else cluster.nodes[number].kill()
        try:
            check_looks(patient, cluster.bootstrap)
        finally:
            if are_hung:
                for number in (1, 2):
                    cluster.nodes[number].resume()


def commit(group: str, bootstrap: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition("t", 0, 0)], asynchronous=False)
    consumer.close()


def check_looks(patient: Patient, bootstrap: str) -> None:
    """Every command tells what the node knows that is left, and names what is not known."""

    def look(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "esp", *command, "--bootstrap-server", bootstrap]
        return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S, check=False)

    # a leader that is left resigns after a while
    eventually(lambda: "no-controller" in look(("doctor", "--skip", NOT_OURS)).stdout, WITHIN_S)
    done, took_s = {}, {}
    for command in LOOKS:
        begun_s = time.monotonic()
        done[command] = look(command)
        took_s[command[:2]] = time.monotonic() - begun_s
    assert max(took_s.values()) < LOOK_TIMEOUT_S + START_S, took_s
    listed, described, brokers, groups, group, quorum, replication, doctor = done.values()
    assert (listed.returncode, listed.stdout) == (0, "__consumer_offsets\nt\n")
    assert described.returncode == brokers.returncode == groups.returncode == 0
    assert "Topic: t\tPartition: 2\tLeader: " in described.stdout
    states = {row.split()[0]: (row.split()[3], row.split()[-1]) for row in brokers.stdout.splitlines()[1:]}
    assert states == {"1": ("silent", "voter"), "2": ("silent", "voter"), "3": ("alive", "voter")}
    for each in (described, brokers, quorum, replication):
        assert "no active controller answered" in each.stderr
    if "readers" not in groups.stdout:
        assert "groups of brokers that do not answer are left out: 1, 2" in groups.stderr
        assert group.returncode == 1
        assert "the coordinator of group readers, broker " in group.stderr
        assert "the group's members and offsets are unknown" in group.stderr
    else:
        assert group.returncode == 0
        assert "readers" in group.stdout
    assert quorum.returncode == replication.returncode == 1
    assert [row.split("\t")[0] for row in quorum.stdout.splitlines()[3:]] == ["Voter: 1", "Voter: 2", "Voter: 3"]
    assert [row.split("\t")[0] for row in replication.stdout.splitlines()] == ["NodeId", "1", "2", "3"]
    assert doctor.returncode == 1
    found = patient.findings()
    assert found["no-controller"] == {""}
    assert found["broker-silent"] == {"1", "2"}
