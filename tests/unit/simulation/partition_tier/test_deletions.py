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
        starts = [(node.log.log_start_offset, node.log.batches[0].header.base_offset) for node in cluster.nodes]
        within.add(any(start > base for start, base in starts))
    assert within == {True, False}
