"""Which runs have a consumer group of KIP-848, and what that changes."""

import dataclasses

from esp.simulation.nodes_tier.consumer_group_profile import CONSUMER_GROUP, SHARE, ConsumerGroupProfile
from esp.simulation.nodes_tier.group_profile import NO_GROUPS
from esp.simulation.nodes_tier.log_start_profile import HOLD_GROUPS
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


def test_groups_are_not_where_transactions_are_alone():
    with_groups = [profile for profile in drawn() if profile.consumer_group is not None]
    assert with_groups
    assert not any(profile.transactions is not None and profile.transactions.is_alone for profile in with_groups)


def test_groups_whose_offsets_expire_have_no_members_of_the_classic_protocol():
    expiring = [one for one in drawn() if one.consumer_group is not None and one.groups.expiry is not None]
    assert expiring
    assert all(not profile.consumer_group.classic_share for profile in expiring)


def test_groups_hold_records_by_their_names_in_part_of_the_runs():
    names = [
        profile.topics[0].configs.get(HOLD_GROUPS, "").split(",")
        for profile in map(Profile.draw, range(400))
        if profile.consumer_group is not None and HOLD_GROUPS in profile.topics[0].configs
    ]
    assert {CONSUMER_GROUP in one for one in names} == {False, True}


def test_groups_alone_have_little_beside_them():
    alone = [one for one in drawn() if one.consumer_group is not None and one.consumer_group.is_alone]
    assert alone
    assert all(profile.groups == NO_GROUPS and profile.transactions is None for profile in alone)
    assert all(profile.share is None and not profile.administrators for profile in alone)


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
