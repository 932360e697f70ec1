"""Which groups runs have."""

import dataclasses

from esp.simulation.nodes_tier.group_profile import NO_GROUPS, GroupsProfile
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.streams import stream


def drawn(brokers=3):
    return [GroupsProfile.draw(stream("groups", seed), brokers) for seed in range(200)]


def test_about_half_of_the_runs_have_groups():
    with_groups = [profile for profile in drawn() if profile is not NO_GROUPS]
    assert 70 < len(with_groups) < 130
    assert {len(profile.groups) for profile in with_groups} == {1, 2}


def test_groups_have_members_of_both_kinds_or_only_somebody_outside():
    groups = [group for profile in drawn() for group in profile.groups]
    assert all(0 <= group.static_members <= group.members for group in groups)
    assert any(0 < group.static_members < group.members for group in groups)
    assert all(group.has_outsider for group in groups if not group.members)
    assert any(not group.members for group in groups)


def test_minimum_is_no_more_than_there_are_brokers():
    assert {profile.min_insync_replicas for profile in drawn(brokers=1)} == {1}


def test_half_of_the_runs_with_groups_have_clients_of_older_releases():
    groups = [profile.groups for profile in (Profile.draw(seed) for seed in range(200)) if profile.groups.groups]
    assert 0.3 < sum(one.has_old_clients for one in groups) / len(groups) < 0.7


def test_groups_come_from_a_stream_of_their_own():
    groups = Profile.draw(7, node_count=3).groups
    assert dataclasses.replace(groups, expiry=None, has_old_clients=False) == GroupsProfile.draw(stream("groups", 7), 3)
