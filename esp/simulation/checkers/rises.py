"""Every rise of a leader's high watermark as it happens: within one turn of the loop an in-sync set may grow, commit and shrink again."""

import contextlib
from collections.abc import Iterator

from esp.replication.partition_leader import PartitionLeader
from esp.replication.replica_log import ReplicaLog


class Rises:
    """Remembers, for each log, the smallest committed in-sync set with which its high watermark rose since somebody asked."""

    def __init__(self) -> None:
        self._smallest: dict[ReplicaLog, int] = {}

    def take(self, log: ReplicaLog) -> int | None:
        """The size of that in-sync set, once; None if no leader moved the high watermark of this log."""
        return self._smallest.pop(log, None)

    def note(self, log: ReplicaLog, isr_size: int) -> None:
        """The high watermark of ``log`` rose with so many in the ISR."""
        self._smallest[log] = min(isr_size, self._smallest.get(log, isr_size))

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at all leaders of this process from outside, until the block ends."""
        advance = PartitionLeader.maybe_advance_high_watermark

        def watch(leader: PartitionLeader) -> bool:
            before = leader.log.high_watermark
            has_moved = advance(leader)
            if leader.log.high_watermark != before:
                self.note(leader.log, len(leader.state.isr))
            return has_moved

        PartitionLeader.maybe_advance_high_watermark = watch  # type: ignore[method-assign, assignment]  # of the class
        try:
            yield
        finally:
            PartitionLeader.maybe_advance_high_watermark = advance  # type: ignore[method-assign]
