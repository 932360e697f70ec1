"""Who leads a partition when brokers go, as the controllers of ESP and of Kafka decide it (ELECT-1): a prediction, not the decision."""

from collections.abc import Callable
from typing import NamedTuple

from esp.model.ids import NodeId
from esp.placement.cluster_view import PartitionView


class Succession(NamedTuple):
    """What becomes of a partition."""

    leader: NodeId | None
    isr: tuple[NodeId, ...]
    """Who is in sync and there."""
    is_unclean: bool
    """Whether the leader may lack records that are acknowledged."""


def succeed(
    partition: PartitionView,
    eligible: tuple[NodeId, ...],
    is_there: Callable[[NodeId], bool],
    *,
    may_be_unclean: bool,
) -> Succession:
    """Whoever leads stays if it can. Else the first in-sync replica leads, in the order of assignment; else one that is eligible
    (KIP-966); else, if that is allowed, any replica that is there, and what it lacks is lost.

    Args:
        partition: as it is.
        eligible: its eligible leader replicas outside the in-sync set.
        is_there: whether a broker serves the partition when all has happened.
        may_be_unclean: ``unclean.leader.election.enable``.
    """
    isr = tuple(node for node in partition.isr if is_there(node))
    if partition.leader is not None and partition.leader in isr:
        return Succession(partition.leader, isr, is_unclean=False)
    for candidates, others, is_unclean in (
        (isr, isr, False),
        (eligible, (), False),
        (partition.replicas if may_be_unclean else (), (), True),
    ):
        for node in partition.replicas:
            if node in candidates and is_there(node):
                return Succession(node, others or (node,), is_unclean)
    return Succession(None, (), is_unclean=False)
