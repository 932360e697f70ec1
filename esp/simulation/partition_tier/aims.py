"""Faults at the moments of a partition where one hurts most (KAFKA-7128)."""

from typing import TYPE_CHECKING, Final

from esp.simulation.partition_tier.node import PartitionNode

if TYPE_CHECKING:
    from esp.simulation.partition_tier.cluster import PartitionCluster

_SOON_US: Final = 100_000
_AGAIN_US: Final = 5_000
_TRIES: Final = 200
_CUT_US: Final = 600_000
_LONG_US: Final = 8_000_000


def kill_after_shrink(cluster: "PartitionCluster", leader: PartitionNode) -> None:
    """Let the leader die when it has just committed what it waited for, and whoever was taken out of the ISR come back at once.

    The new leader knows of the commit only later, so that the one who comes back may seem to hold everything.
    """
    if not cluster.is_calm and cluster.random.random() < cluster.profile.targeted:
        cluster.note(f"aimed at {leader.node_id} after a shrink")
        cluster.later(int(cluster.random.random() * _SOON_US), _kill_and_heal, cluster, leader)


def _kill_and_heal(cluster: "PartitionCluster", leader: PartitionNode) -> None:
    if leader.is_running:
        cluster.inflict("kill", leader)
        cluster.cuts.clear()
        for node in cluster.nodes:
            cluster.resume(node)


def lose_tail_at_takeover(cluster: "PartitionCluster", tries: int = _TRIES) -> None:
    """Wait until the one that would lead next does not know yet what is committed; then the leader dies, and later another loses records.

    The one that takes over counts the other as in sync until that registers anew, and would let it in again by a high watermark of old.
    """
    state = cluster.controller.image.partition
    if cluster.is_calm or state.leader < 0:
        return
    followers = [cluster.nodes[node] for node in state.replicas if node in state.isr and node != state.leader]
    committed_end = cluster.checks.committed_end
    heir, *losers = followers or (None,)
    if heir is not None and losers and heir.is_running and heir.log.high_watermark < committed_end:
        leader = cluster.nodes[state.leader]
        cluster.note(f"aimed at {losers[0].node_id}, while {heir.node_id} takes over from {leader.node_id}")
        cluster.inflict("kill", leader)
        cluster.cuts[leader.node_id, heir.node_id] = cluster.now_us + _LONG_US
        cluster.cuts[losers[0].node_id, heir.node_id] = cluster.now_us + _LONG_US
        _lose_tail(cluster, heir, losers[0], _TRIES * 4)
    elif tries:
        cluster.later(_AGAIN_US, lose_tail_at_takeover, cluster, tries - 1)


def _lose_tail(cluster: "PartitionCluster", heir: PartitionNode, loser: PartitionNode, tries: int) -> None:
    """Once the heir leads, the other loses its last records, and serves again before it can fetch."""
    if cluster.is_calm or not loser.is_running:
        return
    if cluster.controller.image.partition.leader == heir.node_id:
        log = loser.log
        log.recovery_point = max(log.recovery_point, log.log_end_offset - 2)
        cluster.inflict("power-loss", loser)
        cluster.cuts[loser.node_id, heir.node_id] = cluster.now_us + _CUT_US
        cluster.later(_SOON_US, cluster.restart, loser)
    elif tries:
        cluster.later(_AGAIN_US, _lose_tail, cluster, heir, loser, tries - 1)
