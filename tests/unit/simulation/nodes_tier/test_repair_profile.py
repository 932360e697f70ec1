"""Which clusters repair themselves."""

from random import Random

from esp.simulation.nodes_tier import late_timer_profile, ostracism_profile
from esp.simulation.nodes_tier.cluster import node_settings
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.repair_profile import (
    ABSENCE_MEAN_S,
    HELD_BACK_ABSENCE_MEAN_S,
    HELD_BACK_RATES,
    RepairProfile,
)

RARITIES = {
    FaultKind.LATE_TIMER: late_timer_profile.RARITY,
    FaultKind.LONG_OSTRACISM: ostracism_profile.RARITY,
}
"""The factor by which absences are rarer, by the fault for which a run is made."""


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


def test_some_clusters_may_hardly_copy_and_brokers_are_away_more_often_there():
    repairs = [profile for seed in range(300) if (profile := Profile.draw(seed, node_count=5)).repairs is not None]
    held_back = [profile for profile in repairs if profile.repairs.held_back_bytes_per_s is not None]
    assert 0 < len(held_back) < len(repairs)
    for profile in repairs:
        budget = node_settings(1, profile.layout, repairs=profile.repairs).rebalance_bytes_per_second_max
        rarity = next((times for kind, times in RARITIES.items() if kind in profile.fault_means_s), 1)
        mean_s = profile.fault_means_s[FaultKind.ABSENCE] / rarity
        if profile in held_back:
            assert budget in HELD_BACK_RATES
            assert budget < profile.repairs.bytes_per_s
            assert mean_s == HELD_BACK_ABSENCE_MEAN_S
        else:
            assert budget == profile.repairs.bytes_per_s
            assert mean_s == ABSENCE_MEAN_S
