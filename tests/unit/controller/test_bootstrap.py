"""The first records of a cluster."""

from tests.unit.controller.samples import Cluster


def test_a_new_cluster_works_at_the_levels_that_are_served():
    cluster = Cluster(min_insync_replicas=2)
    assert cluster.image.features == {"metadata.version": 30, "eligible.leader.replicas.version": 1}
    assert cluster.image.broker_configs == {"": {"min.insync.replicas": "2"}}
