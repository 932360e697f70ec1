"""Which runs have a consumer group of KIP-848, and what that changes."""

import dataclasses

from esp.simulation.nodes_tier.consumer_group_profile import SHARE, ConsumerGroupProfile
from esp.simulation.nodes_tier.group_profile import NO_GROUPS
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import _settings
from esp.simulation.streams import stream


def drawn():
    return [Profile.draw(seed, node_count=3) for seed in range(200)]


def test_a_share_of_the_runs_has_a_group():
    profiles = [ConsumerGroupProfile.draw(stream("consumer groups", seed), 3) for seed in range(1000)]
    groups = [profile for profile in profiles if profile is not None]
    assert abs(len(groups) / 1000 - SHARE) < 0.05
    assert all(0 <= group.static_members <= group.members for group in groups)
    assert {group.assignor for group in groups} == {None, "uniform", "range"}


def test_groups_are_neither_where_offsets_expire_nor_where_transactions_are_alone():
    with_groups = [profile for profile in drawn() if profile.consumer_group is not None]
    assert with_groups
    assert all(profile.groups.expiry is None for profile in with_groups)
    assert not any(profile.transactions is not None and profile.transactions.is_alone for profile in with_groups)


def test_group_leaves_the_rest_of_the_run_as_it_is():
    profile = next(profile for profile in drawn() if profile.consumer_group is not None)
    without = dataclasses.replace(profile, consumer_group=None)
    assert dataclasses.replace(without, consumer_group=profile.consumer_group) == profile
    mine, others = _settings(1, profile), _settings(1, without)
    changed = [
        field.name for field in dataclasses.fields(mine) if getattr(mine, field.name) != getattr(others, field.name)
    ]
    own = (
        {"min_insync_replicas", "offsets_topic_num_partitions", "group_initial_rebalance_delay_ms"}
        if profile.groups == NO_GROUPS
        else set()
    )
    assert set(changed) <= own | {
        "group_consumer_session_timeout_ms",
        "group_consumer_heartbeat_interval_ms",
        "group_consumer_assignment_interval_ms",
        "group_min_session_timeout_ms",
    }
