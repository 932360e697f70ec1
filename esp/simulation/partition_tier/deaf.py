"""The end of some runs: one follower hears nothing of its leader for a while, though everybody else, the controller too, hears it."""

from typing import TYPE_CHECKING, Final

from esp.simulation.partition_tier.profile import SECOND_US

if TYPE_CHECKING:
    from esp.simulation.partition_tier.cluster import PartitionCluster

_NEVER_US: Final = 1 << 62
"""When a cut ends that somebody takes away."""
_DEAF_US: Final = 10 * SECOND_US
_STREAM_US: Final = 4 * SECOND_US


def let_one_be_deaf(cluster: "PartitionCluster") -> None:
    """A follower that hears nothing of its leader leaves the ISR in time (ISR-3), and gets in again, also under load (HW-4).

    Raises:
        InvariantError: it does not.
    """
    followers = [node for node in cluster.nodes if node.node_id != cluster.controller.image.partition.leader]
    deaf = cluster.random.choice(followers)
    for node in cluster.nodes:
        cluster.cuts[node.node_id, deaf.node_id] = cluster.cuts[deaf.node_id, node.node_id] = _NEVER_US
    cluster.run_until(cluster.now_us + _DEAF_US)
    state = cluster.controller.image.partition
    if deaf.node_id in state.isr and deaf.node_id != state.leader:
        cluster.checks.fail("LIVE-ISR", f"{deaf.node_id} hears nothing, and is in the ISR: {state}")
    cluster.cuts.clear()
    if cluster.profile.streams:
        end_us = cluster.now_us + _STREAM_US
        cluster.producers.stream(end_us)
        cluster.run_until(end_us)
        state = cluster.controller.image.partition
        if set(state.isr) != set(state.replicas):
            cluster.checks.fail("LIVE-ISR", f"{deaf.node_id} does not get in while records come: {state}")
