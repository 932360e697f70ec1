"""In which runs replicas leave the in-sync sets soon, and minimums change."""

from esp.controller.image import MIN_INSYNC_REPLICAS
from esp.simulation.nodes_tier.cluster import node_settings, with_isr
from esp.simulation.nodes_tier.profile import Profile


def test_a_part_of_the_runs_is_hasty_and_a_part_changes_minimums():
    profiles = [Profile.draw(seed) for seed in range(200)]
    assert 30 < sum(profile.isr.lag_time_max_ms is not None for profile in profiles) < 120
    assert 30 < sum(profile.isr.changes_minimums for profile in profiles) < 120
    for profile in profiles:
        settings = with_isr(node_settings(1, profile.layout), profile.isr)
        if profile.isr.lag_time_max_ms is not None:
            assert settings.replica_lag_time_max_ms == profile.isr.lag_time_max_ms


def test_topics_without_a_minimum_of_their_own_have_that_of_all_brokers():
    profiles = [profile for seed in range(200) if (profile := Profile.draw(seed)).isr.by_default]
    assert len(profiles) > 10
    for profile in profiles:
        settings = with_isr(node_settings(1, profile.layout, groups=profile.groups), profile.isr)
        without = [topic for topic in profile.topics if MIN_INSYNC_REPLICAS not in topic.configs]
        assert without
        assert all(topic.min_insync_replicas == settings.min_insync_replicas for topic in without)
