"""Which runs move log starts, and that the settings reach topics and nodes."""

from esp.simulation.nodes_tier.cluster import node_settings
from esp.simulation.nodes_tier.profile import Profile


def test_log_starts_move_in_part_of_all_runs_by_each_of_the_ways():
    profiles = [Profile.draw(seed) for seed in range(200)]
    moving = [profile for profile in profiles if profile.log_starts is not None]
    assert 50 < len(moving) < 110
    for name in ("retention.ms", "retention.bytes"):
        assert any(name in topic.configs for profile in moving for topic in profile.topics)
    assert {profile.log_starts.deletes_records for profile in moving} == {True, False}
    for profile in moving:
        assert profile.log_starts.deletes_records or any("retention" in name for name in profile.topics[0].configs)
        assert all("min.insync.replicas" in topic.configs or profile.isr.by_default for topic in profile.topics)


def test_nodes_look_after_retention_within_seconds_then():
    profile = next(profile for seed in range(99) if (profile := Profile.draw(seed)).log_starts is not None)
    settings = node_settings(1, profile.layout, log_starts=profile.log_starts)
    assert settings.log_retention_check_interval_ms <= 2_000
    assert settings.log_initial_task_delay_ms < 1_000
    assert node_settings(1, profile.layout).log_retention_check_interval_ms > 60_000
