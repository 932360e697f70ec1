"""Which clusters repair themselves."""

from random import Random

from esp.simulation.profile import Profile
from esp.simulation.repair_profile import RepairProfile


def test_copies_have_somewhere_to_go_where_a_cluster_repairs_itself():
    profiles = [profile for seed in range(300) if (profile := Profile.draw(seed)).repairs is not None]
    assert len(profiles) > 20
    for profile in profiles:
        brokers = len(profile.layout.brokers)
        assert all(topic.min_insync_replicas <= topic.replication_factor < brokers for topic in profile.topics)


def test_larger_clusters_repair_themselves_more_often_and_pairs_never():
    rng = Random(1)
    drawn = {brokers: sum(RepairProfile.draw(rng, brokers) is not None for _ in range(200)) for brokers in (2, 3, 5)}
    assert drawn[2] == 0 < drawn[3] < drawn[5]
