"""In which runs a topic is compacted, and how its nodes are set."""

from esp.simulation.nodes_tier.cluster import node_settings
from esp.simulation.nodes_tier.compaction_profile import COMPACTED
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.transaction_profile import TRANSACTIONAL_TOPIC


def test_a_part_of_the_runs_has_a_compacted_topic_beside_the_others():
    profiles = [Profile.draw(seed) for seed in range(200)]
    with_topic = [profile for profile in profiles if profile.compaction is not None]
    assert 30 < len(with_topic) < 90
    for profile in profiles:
        has_it = profile.topics[-1].name == COMPACTED
        assert has_it == (profile.compaction is not None)
        assert profile.topics[0].name != COMPACTED


def test_its_nodes_compact_often():
    profile = next(profile for seed in range(200) if (profile := Profile.draw(seed)).compaction is not None)
    settings = node_settings(1, profile.layout, compaction=profile.compaction)
    assert settings.log_cleaner_backoff_ms == profile.compaction.backoff_ms
    assert settings.log_cleaner_dedupe_buffer_size == profile.compaction.map_bytes
    assert "compact" in profile.topics[-1].configs["cleanup.policy"]


def test_topics_whose_policy_changes_are_named():
    changing = [profile.changing_topics for profile in map(Profile.draw, range(200))]
    assert {name for names in changing for name in names} == {COMPACTED, TRANSACTIONAL_TOPIC}
    assert frozenset() in changing
