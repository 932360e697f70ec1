"""A quorum of one that grows to three while it serves, by Kafka's tool and over the wire, and outlives its first node."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pytest
from kio.schema.add_raft_voter.v1 import request as add_raft_voter
from kio.schema.errors import ErrorCode

from esp.model.ids import uuid_from_base64
from esp.simulation.checkers.client_history import check
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import observers, voters, wait_for_another_controller
from tests.integration.conftest import eventually
from tests.integration.load import Load, read_everything
from tests.integration.wire import Wire

pytestmark = pytest.mark.kafka


def join(cluster: Cluster, number: int) -> NodeProcess:
    """Start a new controller, which observes."""
    node = cluster.nodes[number] = cluster.make(number, roles="broker,controller")
    node.format(cluster.cluster_id, "--no-initial-controllers")
    node.start()
    eventually(lambda: number in observers(cluster, 1), 20)
    return node


def properties_of(node: NodeProcess, path: Path) -> str:
    """The settings of a node in a file, as Kafka's tool wants them of the controller that is to be added."""
    settings = {**node.settings, "log.dirs": str(node.data_dir)}
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def directory_id(node: NodeProcess) -> str:
    [found] = re.findall(r"^directory\.id=(.*)$", (node.data_dir / "meta.properties").read_text(), re.MULTILINE)
    return str(found).replace("\\", "")


def quorum(tools: KafkaTools, cluster: Cluster, *arguments: str) -> str:
    done = tools.run("metadata-quorum", "--bootstrap-server", cluster.nodes[1].bootstrap, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(240)
def test_one_voter_grows_to_three_and_may_be_lost(
    make_cluster: ClusterFactory, observe: Observe, topic: str, kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    cluster = make_cluster(1)
    observer = observe(cluster)
    observer.create(topic, 3, 1)
    with Load(cluster, topic) as load:
        load.wait_for_acks(300)
        second = join(cluster, 2)
        printed = quorum(
            kafka_tools,
            cluster,
            *("--command-config", properties_of(second, tmp_path / "second.properties"), "add-controller"),
        )
        assert f"Added controller 2 with directory id {directory_id(second)}" in printed
        third = join(cluster, 3)
        answer = ask(cluster, add_request(cluster, third, 3))
        assert answer.error_code is ErrorCode.none, answer
        status = quorum(kafka_tools, cluster, "describe", "--status")
        [current] = re.findall("^CurrentVoters:.*$", status, re.MULTILINE)
        assert re.findall(r'"id": (\d+)', current) == ["1", "2", "3"], status
        assert ask(cluster, add_request(cluster, third, 3)).error_code is ErrorCode.duplicate_voter

        quorum(
            kafka_tools,
            cluster,
            *("remove-controller", "--controller-id", "2", "--controller-directory-id", directory_id(second)),
        )
        assert voters(cluster, 1) == {1, 3}
        eventually(lambda: 2 in observers(cluster, 1), 20)
        assert ask(cluster, add_request(cluster, second, 2)).error_code is ErrorCode.none
        replicated = observer.create(topic + "-replicated", 3, 3)
        load.finish()
    assert load.errors == []
    with Load(cluster, replicated) as later:
        later.wait_for_acks(300)
        cluster.nodes[1].kill()
        assert wait_for_another_controller(cluster, 1) in (2, 3)
        later.wait_for_acks(300)
        later.finish()
    assert later.errors == []
    assert check(later.sent, read_everything(cluster, replicated)) == []
    cluster.nodes[1].start()
    observer.wait_until_whole(replicated)
    assert check(load.sent, read_everything(cluster, topic)) == []


def add_request(cluster: Cluster, node: NodeProcess, number: int) -> add_raft_voter.AddRaftVoterRequest:
    host, port = cluster.controller_address(number).rsplit(":", 1)
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=cluster.cluster_id,
        timeout=dt.timedelta(seconds=20),
        voter_id=number,
        voter_directory_id=uuid_from_base64(directory_id(node)),
        listeners=(add_raft_voter.Listener(name="CONTROLLER", host=host, port=int(port)),),
        ack_when_committed=True,
    )


def ask(cluster: Cluster, request: Any) -> Any:
    with Wire(cluster.nodes[1], timeout_s=30) as wire:
        return wire.call(request)
