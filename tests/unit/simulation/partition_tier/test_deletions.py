"""Leaders let go of records, in some runs within batches, and new replicas begin there."""

from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.profile import SECOND_US, PartitionProfile


def cluster_of(seed):
    return PartitionCluster(
        seed, PartitionProfile(faults_per_s=0.2, kinds=("disk-swap", "kill"), produce_interval_us=50_000)
    )


def test_logs_start_within_batches_in_some_runs_and_at_their_bounds_in_the_others():
    within = set()
    for seed in range(8):
        cluster = cluster_of(seed)
        cluster.run(20 * SECOND_US)
        assert cluster.checks.log_start > 0
        logs = [node.log for node in cluster.nodes]
        within.add(any(log.batches and log.log_start_offset > log.batches[0].header.base_offset for log in logs))
    assert within == {True, False}
