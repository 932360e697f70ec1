"""Leaders of the protocol tier that come to nothing, followers that lose their last records as the leader changes, and what that shows."""

from random import Random

import pytest

from esp.replication.partition_leader import PartitionLeader
from esp.simulation.partition_tier.checks import InvariantError
from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.memory_log import MemoryLog
from esp.simulation.partition_tier.profile import PartitionProfile


def profiles():
    """The profiles of seeds, of each kind the first ones."""
    drawn = [(seed, PartitionProfile.of_seed(seed, Random(seed))) for seed in range(600)]
    return [(seed, one) for seed, one in drawn if one.strands], [(seed, one) for seed, one in drawn if one.loses_tails]


def run_all(chosen):
    for seed, _ in chosen:
        PartitionCluster(seed).run()


def test_a_part_of_the_runs_strands_leaders_and_a_part_loses_tails():
    stranding, losing = profiles()
    assert 30 < len(stranding) < 90
    assert 10 < len(losing) < 50
    assert all("kill" in profile.kinds for _, profile in stranding)
    assert not {seed for seed, _ in stranding} & {seed for seed, _ in losing}


def test_stranded_leaders_lose_nothing():
    stranding, _ = profiles()
    clusters = [PartitionCluster(seed) for seed, _ in stranding[:10]]
    for cluster in clusters:
        cluster.run()
    assert sum(cluster.stranded_leaders.stranded for cluster in clusters) > 5
    assert all(cluster.checks.acked for cluster in clusters)


def test_no_client_reaches_a_node_that_is_cut_off():
    cluster = PartitionCluster(1, PartitionProfile(faults_per_s=0, loss=0, spike_probability=0))
    leader = cluster.nodes[0]
    cluster.run_until(2_000_000)
    end_offset = leader.log.log_end_offset
    cluster.cut_off(leader.node_id, 2_000_000)
    assert cluster.is_cut_off(leader.node_id)
    cluster.run_until(3_900_000)
    assert leader.log.log_end_offset == end_offset
    cluster.run_until(6_000_000)
    assert not cluster.is_cut_off(leader.node_id)
    assert leader.log.log_end_offset > end_offset


def test_an_epoch_that_stays_though_it_began_without_a_record_is_seen(monkeypatch):
    """LOG-8, KAFKA-7415."""
    cut = MemoryLog.truncate_to
    monkeypatch.setattr(MemoryLog, "truncate_to", lambda log, end: None if end >= log.log_end_offset else cut(log, end))
    stranding, _ = profiles()
    with pytest.raises(InvariantError, match="LIVE-ISR"):
        run_all(stranding)


def test_a_follower_that_joins_before_the_epochs_start_is_seen(monkeypatch):
    """ISR-4, KAFKA-7128."""
    may_join = PartitionLeader.can_join_isr

    def may_join_early(leader, replica_id, now_us):
        start_offset, leader.epoch_start_offset = leader.epoch_start_offset, 0
        try:
            return may_join(leader, replica_id, now_us)
        finally:
            leader.epoch_start_offset = start_offset

    monkeypatch.setattr(PartitionLeader, "can_join_isr", may_join_early)
    _, losing = profiles()
    with pytest.raises(InvariantError, match="INV-CANDIDATE-COMPLETE"):
        run_all(losing)
