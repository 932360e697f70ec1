"""In which runs there are transactions, and what befalls their coordinators."""

from esp.simulation.nodes_tier.cluster import node_settings
from esp.simulation.nodes_tier.late_epochs import late_epochs
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.transaction_profile import (
    FAULTS_MEAN_S,
    LEVEL,
    MARKERS_STAY_MS,
    RISE_S,
    TRANSACTIONAL_TOPIC,
)
from esp.transactions import initialising
from esp.transactions.transaction import EPOCH_MAX
from tests.unit.transactions.world import World


def test_a_part_of_the_runs_has_transactions_and_few_have_little_else():
    profiles = [Profile.draw(seed) for seed in range(300)]
    drawn = [profile.transactions for profile in profiles if profile.transactions is not None]
    assert 45 < len(drawn) < 110
    assert 5 < sum(one.is_alone for one in drawn) < 35
    for one in (
        lambda each: each.expires,
        lambda each: each.compacts,
        lambda each: each.first_epoch > 0,
        lambda each: each.compaction is not None,
    ):
        assert 0 < sum(map(one, drawn)) < len(drawn)


def test_where_transactions_are_compacted_their_topic_and_the_cleaner_are_set_for_it():
    profile = next(
        one
        for seed in range(300)
        if (one := Profile.draw(seed)).transactions is not None and one.transactions.compaction
    )
    compaction = profile.transactions.compaction
    topic = profile.every_topic[-1]
    assert topic.name == TRANSACTIONAL_TOPIC
    assert compaction.topic_configs.items() <= topic.configs.items()
    settings = profile.transactions.applied_to(node_settings(1, profile.layout))
    assert settings.log_cleaner_dedupe_buffer_size == compaction.map_bytes


def test_half_of_the_clusters_begin_at_the_level_of_new_ones():
    levels = [Profile.draw(seed).transaction_level for seed in range(200)]
    assert 80 < levels.count(LEVEL) < 120
    assert set(levels) == {0, 1, LEVEL}


def test_half_of_the_clusters_that_begin_lower_are_raised_while_transactions_run():
    drawn = [one for seed in range(600) if (one := Profile.draw(seed)).transactions is not None]
    low = [one.transactions.rises_s for one in drawn if one.transaction_level < LEVEL]
    rising = [rises_s for rises_s in low if rises_s is not None]
    assert len(low) / 3 < len(rising) < len(low) * 2 / 3
    assert all(RISE_S[0] <= rises_s <= RISE_S[1] for rises_s in rising)


def test_where_little_else_goes_on_every_fault_of_coordinators_comes():
    alone = [
        profile
        for seed in range(300)
        if (profile := Profile.draw(seed)).transactions is not None and profile.transactions.is_alone
    ]
    for profile in alone:
        assert profile.fault_means_s.keys() >= FAULTS_MEAN_S.keys()
        assert not profile.groups.groups
        assert profile.compaction is None


def test_markers_go_only_where_no_replica_can_be_away_from_another_one():
    drawn = [one.transactions for seed in range(300) if (one := Profile.draw(seed)).transactions is not None]
    compacted = [one for one in drawn if one.compaction is not None]
    for one in compacted:
        is_short = one.compaction.delete_retention_ms < MARKERS_STAY_MS
        assert is_short == (one.replication_factor == 1)
        assert one.compaction.topic_configs["delete.retention.ms"] == str(one.compaction.delete_retention_ms)
    assert 0 < sum(one.replication_factor == 1 for one in compacted) < len(compacted)


def test_new_ids_begin_with_a_late_epoch_for_a_while():
    created = initialising.created
    with late_epochs(EPOCH_MAX):
        assert World().init().producer.epoch == EPOCH_MAX
    assert initialising.created is created
    assert World().init().producer.epoch == 0
