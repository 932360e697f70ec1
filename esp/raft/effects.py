"""What the raft core asks of its driver."""

from dataclasses import dataclass

from esp.model.ids import LeaderEpoch
from esp.raft.quorum_state import QuorumState


@dataclass(frozen=True, slots=True)
class Effects:
    """Steps for the driver, to be done in the order of the fields.

    After a ``batch`` the driver flushes the log and then tells the core (:meth:`~esp.raft.node.RaftNode.on_flushed`); one flush may serve
    many batches (SYNC-2).
    """

    persist: QuorumState | None = None
    """Write this to ``quorum-state``, durably, before anything that follows (RAFT-1)."""
    begin_epoch: LeaderEpoch | None = None
    """Let the log begin this epoch at its end, durably (LOG-8, LOG-9)."""
    batch: bytes | None = None
    """Append this batch, its offset and epoch stamped."""
    high_watermark: int | None = None
    """Everything below this offset is committed now."""
