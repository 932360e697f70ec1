"""The runs in which committed offsets expire, and the settings that make them expire."""

from random import Random

from esp.simulation.nodes_tier.cluster import node_settings
from esp.simulation.nodes_tier.expiry_profile import (
    LAST_LAPSE_S,
    RETENTION_MINUTES,
    ExpiryProfile,
    draw_lapse_s,
    find_exempt,
)
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.nemesis import CLOCK_JUMPS_S
from esp.simulation.nodes_tier.profile import Profile


def test_offsets_expire_in_some_runs_with_groups_and_in_no_other():
    drawn = [Profile.draw(seed) for seed in range(200)]
    expiring = [profile for profile in drawn if profile.groups.expiry is not None]
    assert 20 < len(expiring) < 70
    assert all(profile.groups.groups for profile in expiring)
    assert {profile.groups.expiry.reads_part for profile in expiring} == {False, True}
    assert all((FaultKind.LAPSE in profile.fault_means_s) == (profile.groups.expiry is not None) for profile in drawn)


def test_nodes_have_a_short_retention_in_these_runs_alone():
    profile = next(profile for seed in range(200) if (profile := Profile.draw(seed)).groups.expiry is not None)
    settings = node_settings(1, profile.layout, groups=profile.groups)
    assert settings.offsets_retention_minutes == RETENTION_MINUTES
    assert settings.offsets_retention_check_interval_ms == profile.groups.expiry.check_interval_ms
    assert node_settings(1, profile.layout).offsets_retention_minutes > RETENTION_MINUTES


def test_offsets_of_the_last_of_several_groups_are_exempt():
    assert find_exempt([]) == find_exempt(["only"]) == ()
    assert find_exempt(["one", "two"]) == ("two",)
    profile = next(
        profile
        for seed in range(200)
        if (profile := Profile.draw(seed)).groups.expiry is not None and len(profile.groups.groups) > 1
    )
    settings = node_settings(1, profile.layout, groups=profile.groups)
    assert settings.offsets_retention_exempt_groups == (profile.groups.groups[-1].name,)


def test_lapses_are_both_shorter_and_longer_than_the_retention():
    rng = Random(1)
    lapses_s = [draw_lapse_s(rng) for _ in range(100)]
    assert min(lapses_s) < RETENTION_MINUTES * 60 < max(lapses_s)


def test_last_lapse_is_longer_than_a_clock_jumps_and_the_retention():
    assert max(CLOCK_JUMPS_S) + RETENTION_MINUTES * 60 < LAST_LAPSE_S


def test_profile_comes_from_its_stream_alone():
    assert ExpiryProfile.draw(Random(5)) == ExpiryProfile.draw(Random(5))
