"""Controllers with two listeners: who asks at one of them is told where the leader has that one, not another (KIP-853)."""

import pytest
from kio.schema.vote.v2.request import PartitionData, TopicData, VoteRequest
from kio.static.primitive import i32

from esp.testing.ports import free_port
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.conftest import eventually
from tests.integration.wire import Wire

pytestmark = pytest.mark.timeout(120)


def _ask(node, port):
    """The leader, and the port of it that the answer names, by a vote of an epoch that is long over."""
    partition = PartitionData(
        partition_index=i32(0),
        replica_epoch=i32(0),
        replica_id=99,
        replica_directory_id=None,
        voter_directory_id=None,
        last_offset_epoch=i32(0),
        last_offset=0,
        pre_vote=False,
    )
    request = VoteRequest(
        cluster_id=None,
        voter_id=i32(-1),
        topics=(TopicData(topic_name="__cluster_metadata", partitions=(partition,)),),
    )
    with Wire(node, port=port) as wire:
        answer = wire.call(request)
    leader = answer.topics[0].partitions[0].leader_id
    return leader, [endpoint.port for endpoint in answer.node_endpoints if endpoint.node_id == leader]


def test_the_leader_is_found_by_either_listener(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(3, start=False)
    second = {number: free_port() for number in cluster.nodes}
    for number, node in cluster.nodes.items():
        listeners = (
            f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{cluster.controller_port(number)},"
            f"QUORUM://127.0.0.1:{second[number]}"
        )
        node.settings |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,QUORUM:PLAINTEXT",
            "controller.listener.names": "CONTROLLER,QUORUM",
        }
    with cluster:
        node = cluster.nodes[1]
        eventually(lambda: _ask(node, cluster.controller_port(1))[0] > 0, 30)
        leader = _ask(node, cluster.controller_port(1))[0]
        for number, asked in cluster.nodes.items():
            assert _ask(asked, cluster.controller_port(number)) == (leader, [cluster.controller_port(leader)])
            assert _ask(asked, second[number]) == (leader, [second[leader]])

        mover, helper = (number for number in cluster.nodes if number != leader)
        moved = cluster.nodes[mover]
        moved.stop()
        moved.settings |= {
            "controller.listener.names": "QUORUM,CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{second[helper]}",
        }
        moved.start()
        eventually(lambda: _ask(moved, second[mover]) == (leader, [second[leader]]), 30)
