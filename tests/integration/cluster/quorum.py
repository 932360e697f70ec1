"""What the tests of the metadata quorum share: who is in it, over the wire and by Kafka's tool."""

import time

from kio.schema.describe_quorum.v2 import request as describe_quorum
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse

from esp.testing.cluster import Cluster
from tests.integration.wire import Wire

METADATA_TOPIC = "__cluster_metadata"
FOUND_WITHIN_S = 30.0


def describe(cluster: Cluster, number: int) -> DescribeQuorumResponse:
    """Ask one node, which asks the active controller."""
    request = describe_quorum.DescribeQuorumRequest(
        topics=(
            describe_quorum.TopicData(
                topic_name=METADATA_TOPIC, partitions=(describe_quorum.PartitionData(partition_index=0),)
            ),
        )
    )
    with Wire(cluster.nodes[number], timeout_s=3) as wire:
        answer: DescribeQuorumResponse = wire.call(request)
    return answer


def active_controller(cluster: Cluster, *, within_s: float = FOUND_WITHIN_S) -> int:
    """The number of the active controller, asked of whoever answers."""
    deadline = time.monotonic() + within_s
    while True:
        for number in (number for number, node in cluster.nodes.items() if node.is_running):
            try:
                answer = describe(cluster, number)
            except (OSError, EOFError):
                continue
            if answer.error_code.value == 0 and (partition := answer.topics[0].partitions[0]).error_code.value == 0:
                return int(partition.leader_id)
        assert time.monotonic() < deadline, f"no active controller within {within_s} s"
        time.sleep(0.05)


def wait_for_another_controller(cluster: Cluster, old: int) -> int:
    """Wait until another node is the active controller and return its number."""
    deadline = time.monotonic() + FOUND_WITHIN_S
    while (found := active_controller(cluster)) == old:
        assert time.monotonic() < deadline, f"{old} is the active controller still"
        time.sleep(0.05)
    return found


def voters(cluster: Cluster, number: int) -> set[int]:
    """The numbers of the voters."""
    answer = describe(cluster, number)
    return {int(voter.replica_id) for voter in answer.topics[0].partitions[0].current_voters}


def observers(cluster: Cluster, number: int) -> set[int]:
    """The numbers of those who fetch the metadata log and are no voters."""
    answer = describe(cluster, number)
    return {int(observer.replica_id) for observer in answer.topics[0].partitions[0].observers}
