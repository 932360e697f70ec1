"""Every rise of a leader's high watermark as it happens: within one turn of the loop an in-sync set may grow, commit and shrink again."""

import contextlib
from collections.abc import Iterator

from esp.replication.partition_leader import PartitionLeader
from esp.replication.replica_log import ReplicaLog


class Rises:
    """Remembers, for each log, with which committed in-sync sets its high watermark rose since it was last taken."""

    def __init__(self) -> None:
        self._sizes: dict[ReplicaLog, dict[int, int]] = {}

    def take(self, log: ReplicaLog) -> dict[int, int]:
        """The sizes of these in-sync sets by their partition epochs, once; none if no leader moved the high watermark of this log."""
        return self._sizes.pop(log, {})

    def note(self, log: ReplicaLog, isr_size: int, partition_epoch: int) -> None:
        """The high watermark of ``log`` rose with so many in the ISR, which has that epoch."""
        self._sizes.setdefault(log, {})[partition_epoch] = isr_size

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all leaders of this process from outside, until the block ends."""
        advance = PartitionLeader.maybe_advance_high_watermark

        def watch(leader: PartitionLeader) -> bool:
            before = leader.log.high_watermark
            has_moved = advance(leader)
            if leader.log.high_watermark != before:
                self.note(leader.log, len(leader.state.isr), leader.state.partition_epoch)
            return has_moved

        PartitionLeader.maybe_advance_high_watermark = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            PartitionLeader.maybe_advance_high_watermark = advance  # type: ignore[method-assign]
