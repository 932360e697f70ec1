"""The minimum of in-sync replicas of the protocol tier changes, and what is wrong with that is seen."""

from dataclasses import replace
from random import Random

import pytest

from esp.controller import configs
from esp.simulation.partition_tier.checks import InvariantError
from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.profile import SECOND_US, PartitionProfile

PROFILE = PartitionProfile(
    min_insync_replicas=1,
    minimums=(1, 2),
    lag_time_max_us=SECOND_US // 2,
    slow_metadata_us=SECOND_US,
    spike_probability=0.1,
    faults_per_s=0.3,
    kinds=("kill", "cut", "pause"),
)


@pytest.mark.parametrize("decides", [False, True])
@pytest.mark.parametrize("has_own_minimum", [False, True])
def test_minimums_that_change_lose_nothing(decides, has_own_minimum):
    for seed in range(3):
        cluster = PartitionCluster(
            seed, PartitionProfile(minimums=(1, 2, 3), decides=decides, has_own_minimum=has_own_minimum)
        )
        cluster.run()
        assert cluster.minimums.changes > 3
        assert cluster.checks.acked


def test_a_greater_minimum_that_keeps_the_epoch_is_seen(monkeypatch):
    """ELR-3."""
    monkeypatch.setattr(configs, "plan_epochs_of_raised_minimums", lambda _image, _records: ())

    def run_some():
        for seed in range(60):
            PartitionCluster(seed, replace(PROFILE, decides=True)).run()

    with pytest.raises(InvariantError, match=r"INV-HW-STRICT|INV-MAXISR"):
        run_some()


def test_a_part_of_the_runs_has_minimums_that_change_and_a_part_is_hasty():
    profiles = [PartitionProfile.drawn(Random(seed)) for seed in range(200)]
    changing = [profile.with_minimums(Random(seed)) for seed, profile in enumerate(profiles)]
    changing = [profile for profile in changing if profile.minimums]
    assert 20 < len(changing) < 100
    assert all(profile.min_insync_replicas in profile.minimums for profile in changing)
    hasty = [profile for seed, profile in enumerate(profiles) if profile.with_haste(Random(seed)) != profile]
    assert 20 < len(hasty) < 100
