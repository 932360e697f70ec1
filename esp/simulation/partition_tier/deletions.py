"""Deletions of records in a simulated partition: leaders let go of what is committed, in some runs up to within a batch (DeleteRecords)."""

from typing import TYPE_CHECKING, Final

from esp.replication.partition_leader import PartitionLeader
from esp.simulation.streams import stream

if TYPE_CHECKING:
    from esp.simulation.partition_tier.cluster import PartitionCluster
    from esp.simulation.partition_tier.node import PartitionNode

WITHIN_BATCHES_SHARE: Final = 0.6
"""Of the runs in which records are deleted."""

_SIZES: Final = (1, 2, 5)
"""Records of a batch, in these runs."""


class PartitionDeletions:
    """Deletes records of a simulated partition, and draws the sizes of its batches.

    Args:
        cluster: where records are deleted.
        seed: of the run.
    """

    def __init__(self, cluster: "PartitionCluster", seed: int) -> None:
        self._cluster = cluster
        self._random = stream("partition deletions", seed)
        self._within_batches = cluster.profile.deletes and self._random.random() < WITHIN_BATCHES_SHARE

    def draw_size(self) -> int:
        """The number of records in a producer's next batch."""
        return self._random.choice(_SIZES) if self._within_batches else 1

    def maybe_delete(self, node: "PartitionNode") -> None:
        """A leader lets go of a part of what is committed, from time to time."""
        log, cluster = node.log, self._cluster
        if (
            cluster.profile.deletes
            and isinstance(node.role, PartitionLeader)
            and log.batches
            and cluster.random.random() < 0.3
        ):
            header = cluster.random.choice(log.batches).header
            offset = header.base_offset
            if self._within_batches:
                offset += self._random.randint(0, header.last_offset_delta)
            if log.log_start_offset < offset <= log.high_watermark:
                log.raise_log_start(offset)
                cluster.checks.deleted(offset)
