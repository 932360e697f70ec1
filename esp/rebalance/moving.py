"""One move while it is carried out: its stage, the reason if it waits, and how much of it is copied. Times are milliseconds."""

from collections.abc import Mapping
from dataclasses import dataclass

from esp.placement.step import Move
from esp.rebalance.cluster import Partition, Reassignment, Replica
from esp.rebalance.stages import BELIEVED_AFTER_MS, NEXT, Seen, Stage, see


@dataclass
class Moving:
    """A move and what has become of it.

    Args:
        move: what the plan says.
        step: position of its step.
    """

    move: Move
    step: int
    stage: Stage = Stage.PLANNED
    reason: str = ""
    """Why it waits or ended, beginning with ``waiting for`` or ``blocked by``; empty if there is nothing to tell."""
    copied_bytes: int = 0
    total_bytes: int = 0
    began_ms: int | None = None
    progress_ms: int = 0
    """When more of it was there than before, or when it was held up last for a reason that is not its own."""
    cancellations_refused: int = 0
    _strange_since_ms: int | None = None

    def __post_init__(self) -> None:
        self.total_bytes = self.move.copied_bytes

    def begin(self, now_ms: int) -> None:
        """The controller was asked and did not refuse."""
        self.stage = Stage.SUBMITTED
        self.began_ms = self.progress_ms = now_ms
        self.reason = ""

    def end(self, stage: Stage, reason: str) -> None:
        """It is over."""
        self.stage = stage
        self.reason = reason

    def observe(self, partition: Partition | None, moving: Reassignment | None, now_ms: int) -> None:
        """Go on by what a look shows of the partition."""
        if self.stage.is_over:
            return
        was_active = self.stage.is_active
        seen = see(self.move, partition, moving)
        self.stage = NEXT[self.stage][seen]
        if self.stage is Stage.DONE:
            self.copied_bytes = self.total_bytes
            self.reason = ""
        elif self.stage is Stage.BLOCKED:
            self.reason = (
                f"blocked by a change that somebody else made: the partition is {self._where(partition, moving)}"
            )
        elif self.stage.is_active and not was_active:  # begun by an earlier run of the tool
            self.began_ms = self.progress_ms = now_ms
        if self.stage.is_active and seen in (Seen.BEFORE, Seen.ELSEWHERE):
            self._doubt(partition, moving, now_ms)
        else:
            self._strange_since_ms = None

    def _doubt(self, partition: Partition | None, moving: Reassignment | None, now_ms: int) -> None:
        """The partition is not where an active move should have it; believe that after a while."""
        self._strange_since_ms = now_ms if self._strange_since_ms is None else self._strange_since_ms
        if now_ms - self._strange_since_ms >= BELIEVED_AFTER_MS:
            where = self._where(partition, moving)
            self.end(Stage.BLOCKED, f"blocked by somebody who cancelled or changed the move: the partition is {where}")

    def _where(self, partition: Partition | None, moving: Reassignment | None) -> str:
        if moving is not None:
            return f"on its way to {list(moving.target)}"
        return "gone" if partition is None else f"on {list(partition.replicas)}"

    def measure(self, sizes: Mapping[Replica, int], leader: int, now_ms: int) -> None:
        """Take the sizes of the copies; where nobody tells of any, what was told last holds."""
        if not self.stage.is_active or not any(Replica(self.move.name, broker) in sizes for broker in self.move.adding):
            return
        whole = sizes.get(Replica(self.move.name, leader), self.move.replica_bytes)
        copied = sum(min(whole, sizes.get(Replica(self.move.name, broker), 0)) for broker in self.move.adding)
        if copied > self.copied_bytes:
            self.progress_ms = now_ms
        self.copied_bytes = copied
        self.total_bytes = whole * len(self.move.adding)
