"""Replicas that begin while the leader's log starts within a batch, because records were deleted (TRUNC-5)."""

import shutil
from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kio.schema.alter_partition_reassignments.v1.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from esp.model.errors import ErrorCode
from esp.protocol.trash import AlterPartitionReassignmentsRequest
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from esp.testing.segment_files import read_batch_headers, segment_paths
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.wire import Wire

JOINS_WITHIN_S = 30.0
RECORDS = 10
"""The number of records of each batch."""


def produce(cluster: Cluster, topic: str) -> None:
    """One batch to partition 0."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 60_000, "acks": "all"})
    # Records that wait for the topic's metadata leave in batches of their own, whatever the linger time says.
    producer.list_topics(topic, 30)
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(30) == 0


def give_to_node_3(cluster: Cluster, topic: str) -> None:
    """A reassignment brings a replica to a broker that had none."""
    partition = ReassignablePartition(partition_index=i32(0), replicas=tuple(map(BrokerId, (1, 2, 3))))
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name=TopicName(topic), partitions=(partition,)),)
    )
    with Wire(cluster.nodes[1], timeout_s=30) as wire:
        (answer,) = wire.call(request).responses
    assert answer.partitions[0].error_code is ErrorCode.none


def lose_the_copy_of_node_2(cluster: Cluster, topic: str) -> None:
    """A disk was replaced."""
    node = cluster.nodes[2]
    node.kill()
    for directory in node.log_dirs:
        for path in directory.glob(f"{topic}-0"):
            shutil.rmtree(path)
    node.start()


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("happens", "new"), [(give_to_node_3, 3), (lose_the_copy_of_node_2, 2)], ids=["reassigned", "disk replaced"]
)
def test_a_replica_that_begins_anew_gets_a_log_that_starts_within_a_batch(
    make_cluster: ClusterFactory, observe: Observe, topic: str, happens: Callable[[Cluster, str], None], new: int
) -> None:
    topic = topic[:40].replace("[", "-").replace("]", "-").replace(" ", "-")
    cluster = make_cluster(3)
    observer = observe(cluster)
    observer.make_all([NewTopic(topic, 1, replica_assignment=[[1, 2]])])
    for _ in range(2):
        produce(cluster, topic)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 5)]).values()
    assert deleted.result(30).low_watermark == 5
    assert [header.base_offset for header in read_batch_headers(cluster.nodes[1].log_dirs, topic)] == [0, RECORDS]
    happens(cluster, topic)
    eventually(lambda: new in observer.partitions(topic)[0].isr, JOINS_WITHIN_S)
    produce(cluster, topic)
    cluster.stop()
    logs = [
        b"".join(path.read_bytes() for path in segment_paths(cluster.nodes[number].log_dirs, topic))
        for number in (1, new)
    ]
    assert logs[0] == logs[1]
    assert len(read_batch_headers(cluster.nodes[new].log_dirs, topic)) == 3
