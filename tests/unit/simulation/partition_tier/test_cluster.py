"""The protocol tier by seed: the cores of replication under faults, and that the checks see what is wrong."""

import pytest

from esp.replication import partition_leader
from esp.simulation.partition_tier.checks import InvariantError
from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.profile import PartitionProfile


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_no_seed_violates_an_invariant(first):
    for seed in range(first, first + 10):
        PartitionCluster(seed).run()


def test_a_seed_replays_event_by_event():
    traces = []
    for _ in range(2):
        cluster = PartitionCluster(7)
        cluster.trace = []
        cluster.run()
        traces.append(cluster.trace)
    assert traces[0] == traces[1]
    assert len(traces[0]) > 1000


def test_a_quiet_cluster_acknowledges_everything_and_holds_no_election():
    cluster = PartitionCluster(1, PartitionProfile(faults_per_s=0, loss=0, spike_probability=0, deletes=False))
    cluster.run()
    assert cluster.controller.image.partition.leader_epoch == 1
    assert cluster.controller.image.partition.partition_epoch == 0
    assert len(cluster.checks.acked) > 100


@pytest.mark.parametrize("min_isr", [1, 2])
def test_runs_acknowledge_records_under_faults(min_isr):
    clusters = [
        PartitionCluster(seed, PartitionProfile(min_insync_replicas=min_isr, faults_per_s=1)) for seed in range(4)
    ]
    for cluster in clusters:
        cluster.run()
        assert cluster.faults > 10
    assert sum(len(cluster.checks.acked) for cluster in clusters) > 80


def test_a_leader_that_commits_below_the_minimum_is_seen(monkeypatch):
    monkeypatch.setattr(partition_leader, "effective_min_isr", lambda *_: 1)
    cluster = PartitionCluster(5, PartitionProfile(faults_per_s=2, kinds=("kill",)))
    with pytest.raises(InvariantError, match="INV-HW-STRICT"):
        cluster.run()
