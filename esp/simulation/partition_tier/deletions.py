"""Deletions of records in a simulated partition: leaders let go of what is committed, in some runs up to within a batch (DeleteRecords)."""

from random import Random
from typing import Final

from esp.replication.partition_leader import PartitionLeader
from esp.simulation.partition_tier.checks import PartitionChecks
from esp.simulation.partition_tier.node import PartitionNode
from esp.simulation.streams import stream

WITHIN_BATCHES_SHARE: Final = 0.6
"""The share of the runs in which records are deleted up to offsets within batches, among those in which records are deleted."""

UP_TO_RETURNING_SHARE: Final = 0.4
"""The share of the restarts of a node, in these runs, before which records are deleted up to the end of its log."""

_SIZES: Final = (1, 2, 5)
"""Records of a batch, in these runs."""


class PartitionDeletions:
    """Deletes records of a simulated partition, and draws the sizes of its batches.

    Args:
        deletes: True if records are deleted in this run.
        checks: they are told of each deletion.
        run_random: the randomness of the run, which says when and where.
        seed: of the run; a stream of its own says where within a batch, and the sizes of batches.
    """

    def __init__(self, checks: PartitionChecks, run_random: Random, seed: int, *, deletes: bool) -> None:
        self._checks = checks
        self._run_random = run_random
        self._deletes = deletes
        self._random = stream("partition deletions", seed)
        self._within_batches = deletes and self._random.random() < WITHIN_BATCHES_SHARE

    def draw_size(self) -> int:
        """The number of records in a producer's next batch."""
        return self._random.choice(_SIZES) if self._within_batches else 1

    def maybe_delete(self, node: PartitionNode) -> None:
        """A leader lets go of a part of what is committed, from time to time."""
        log, random = node.log, self._run_random
        if self._deletes and isinstance(node.role, PartitionLeader) and log.batches and random.random() < 0.3:
            header = random.choice(log.batches).header
            offset = header.base_offset
            if self._within_batches:
                offset += self._random.randint(0, header.last_offset_delta)
            self._delete(node, offset)

    def before_return(self, node: PartitionNode) -> None:
        """A node comes back: by now its leader may have let go of just what its log could be compared with (LOG-4)."""
        if self._deletes and self._random.random() < UP_TO_RETURNING_SHARE:
            for leader in self._checks.nodes:
                if isinstance(leader.role, PartitionLeader):
                    self._delete(leader, node.log.log_end_offset)

    def _delete(self, leader: PartitionNode, offset: int) -> None:
        log = leader.log
        if log.log_start_offset < offset <= log.high_watermark:
            log.raise_log_start(offset)
            self._checks.deleted(offset)
