"""Questions that an image answers."""

from esp.controller.topics import NewTopic
from tests.unit.controller.samples import Cluster


def test_the_minimum_in_sync_is_the_topics_before_the_clusters_and_never_above_the_replicas():
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.create(
        NewTopic(name="own", replication_factor=3, configs={"min.insync.replicas": "3"}),
        NewTopic(name="default", replication_factor=3),
    )
    topics = cluster.image.topics_by_name
    assert cluster.image.min_insync_replicas(topics["own"], 3) == 3
    assert cluster.image.min_insync_replicas(topics["default"], 3) == 2
    assert cluster.image.min_insync_replicas(topics["own"], 1) == 1


def test_all_partitions_are_listed_with_their_topic():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="a", num_partitions=2), NewTopic(name="b"))
    assert [(topic.name, partition.partition) for topic, partition in cluster.image.partitions()] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
