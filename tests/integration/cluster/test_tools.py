"""Kafka's own tools on a cluster: the quorum, the topics with their in-sync replicas."""

import json
import re
import subprocess
import sys

import pytest

from esp.model.ids import uuid_from_base64
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import describe
from tests.integration.conftest import eventually

pytestmark = pytest.mark.kafka


def run(tools: KafkaTools, cluster: Cluster, tool: str, *arguments: str) -> str:
    """Run a tool and return what it printed."""
    done = tools.run(tool, "--bootstrap-server", cluster.bootstrap, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stderr, done.stderr
    return done.stdout


def test_quorum_status_names_the_leader_and_all_voters(kafka_tools: KafkaTools, cluster: Cluster) -> None:
    printed = run(kafka_tools, cluster, "metadata-quorum", "describe", "--status")
    fields = dict(re.findall(r"^(\w+):\s+(.*)$", printed, re.MULTILINE))
    assert fields["ClusterId"] == cluster.cluster_id
    assert fields["LeaderId"] in ("1", "2", "3")
    assert int(fields["LeaderEpoch"]) >= 1
    assert int(fields["HighWatermark"]) > 0
    assert re.findall(r'"id": (\d)', fields["CurrentVoters"]) == ["1", "2", "3"]
    assert len(set(re.findall(r'"directoryId": "([^"]{22})"', fields["CurrentVoters"]))) == 3
    assert len(re.findall(r"CONTROLLER://127\.0\.0\.1:\d+", fields["CurrentVoters"])) == 3
    assert fields["CurrentObservers"] == "[]"


def test_quorum_replication_shows_voters_that_keep_up(kafka_tools: KafkaTools, cluster: Cluster) -> None:
    printed = run(kafka_tools, cluster, "metadata-quorum", "describe", "--replication")
    rows = [line.split() for line in printed.splitlines()[1:] if line.strip()]
    assert sorted(row[0] for row in rows) == ["1", "2", "3"]
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]
    assert all(int(row[3]) < 20 for row in rows), "nobody lags behind"


def test_topics_show_their_in_sync_replicas_and_that_one_left(
    kafka_tools: KafkaTools, cluster: Cluster, observe: Observe, topic: str
) -> None:
    topic = topic.replace("_", "-")
    observer = observe(cluster)
    observer.create(topic, 3)

    def isr() -> list[set[str]]:
        printed = run(kafka_tools, cluster, "topics", "--describe", "--topic", topic)
        assert "ReplicationFactor: 3" in printed
        return [set(row.split(",")) for row in re.findall(r"Isr: ([0-9,]*)", printed)]

    assert isr() == [{"1", "2", "3"}] * 3
    cluster.nodes[2].stop()
    try:
        eventually(lambda: all(2 not in one.isr for one in observer.partitions(topic).values()), 30)
        assert isr() == [{"1", "3"}] * 3
        short = run(kafka_tools, cluster, "topics", "--describe", "--under-replicated-partitions", "--topic", topic)
        assert short.count("Partition:") == 3
    finally:
        cluster.nodes[2].start()
    observer.wait_until_whole(topic)


def test_leadership_goes_back_to_the_preferred_replica_when_asked(
    kafka_tools: KafkaTools, cluster: Cluster, observe: Observe, topic: str
) -> None:
    topic = topic.replace("_", "-")[:60]
    observer = observe(cluster)
    observer.create(topic, 1)
    preferred = observer.leader(topic)
    cluster.nodes[preferred].stop()
    observer.wait_for_leader_other_than(preferred, topic)
    cluster.nodes[preferred].start()
    observer.wait_until_whole(topic)
    run(
        kafka_tools,
        cluster,
        *("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0"),
    )
    eventually(lambda: observer.leader(topic) == preferred, 20)


def test_our_own_tool_shows_the_quorum(cluster: Cluster) -> None:
    def esp_quorum(*options: str) -> str:
        command = [sys.executable, "-m", "esp", "quorum", "describe", "--bootstrap-server", cluster.bootstrap, *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return done.stdout

    told = json.loads(esp_quorum("--json"))
    asked = describe(cluster, 1).topics[0].partitions[0]
    assert (told["leader"], told["leader_epoch"]) == (asked.leader_id, asked.leader_epoch)
    assert told["observers"] == []
    assert [(voter["node_id"], uuid_from_base64(voter["directory_id"])) for voter in told["voters"]] == [
        (voter.replica_id, voter.replica_directory_id)
        for voter in sorted(asked.current_voters, key=lambda voter: voter.replica_id)
    ]
    assert [voter["addresses"] for voter in told["voters"]] == [[cluster.controller_address(n)] for n in (1, 2, 3)]
    status = esp_quorum()
    assert f"LeaderId: {told['leader']}\n" in status
    assert all(
        f"Voter: {voter['node_id']}\tDirectoryId: {voter['directory_id']}\t" in status for voter in told["voters"]
    )
    head, *rows = (line.split("\t") for line in esp_quorum("--replication").splitlines())
    assert head[0] == "NodeId"
    assert [row[0] for row in rows] == ["1", "2", "3"]
    assert sorted(row[-1] for row in rows) == ["Follower", "Follower", "Leader"]
