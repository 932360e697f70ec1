"""The progress of a plan, in values for displays. Bytes, bytes per second, and seconds."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.placement.estimate import TYPICAL_MOVE_S
from esp.rebalance.execution import Execution
from esp.rebalance.journal_entries import Sample, Wish
from esp.rebalance.stages import Stage

RATE_WINDOW_MS: Final = 30_000
"""The rate is that of the last half minute: long enough for the throttle's windows, short enough to follow a change."""


class MoveReport(NamedTuple):
    """The progress of a move."""

    partition: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]
    stage: Stage
    reason: str
    copied_bytes: int
    total_bytes: int


class Report(NamedTuple):
    """The progress of a plan."""

    wish: Wish
    moves: tuple[MoveReport, ...]
    bytes_per_second: float | None
    """The measured rate of copying; None as long as there is nothing to measure."""
    limit_bytes_per_second: int | None
    """The rate at which each broker may send and receive; None if no throttle is set."""
    produce_p99_ms: float | None
    """The last produce latency; None if no broker reports it, or there were no produce requests."""
    trouble: str
    """The reason why the cluster cannot be asked; empty if it can."""

    @property
    def copied_bytes(self) -> int:
        """The bytes that are copied already."""
        return sum(move.copied_bytes for move in self.moves)

    @property
    def total_bytes(self) -> int:
        """The bytes to be copied in all."""
        return sum(move.total_bytes for move in self.moves)

    @property
    def left_bytes(self) -> int:
        """The bytes still to be copied by moves that are not over."""
        return sum(move.total_bytes - move.copied_bytes for move in self.moves if not move.stage.is_over)

    @property
    def left_moves(self) -> int:
        """The number of moves that are not over."""
        return sum(not move.stage.is_over for move in self.moves)

    @property
    def left_s(self) -> float | None:
        """The seconds left by the measured rate and the cost of a move besides its bytes; None if bytes are left and there is no rate."""
        moves_s = self.left_moves * TYPICAL_MOVE_S
        if not self.left_bytes:
            return moves_s
        return max(moves_s, self.left_bytes / self.bytes_per_second) if self.bytes_per_second else None

    @property
    def stages(self) -> Counter[Stage]:
        """The number of moves at each stage."""
        return Counter(move.stage for move in self.moves)


def report_on(
    execution: Execution,
    samples: Sequence[Sample],
    *,
    limit_bytes_per_second: int | None = None,
    produce_p99_ms: float | None = None,
    trouble: str = "",
) -> Report:
    """Return the report of an execution."""
    moves = tuple(
        MoveReport(
            each.move.name,
            each.move.before,
            each.move.after,
            each.stage,
            each.reason,
            each.copied_bytes,
            each.total_bytes,
        )
        for each in execution.moves
    )
    return Report(execution.wish, moves, measured_rate(samples), limit_bytes_per_second, produce_p99_ms, trouble)


def measured_rate(samples: Sequence[Sample]) -> float | None:
    """Bytes per second over the last samples; None with less than two."""
    if not samples:
        return None
    recent = [sample for sample in samples if sample.at_ms >= samples[-1].at_ms - RATE_WINDOW_MS]
    first, last = recent[0], recent[-1]
    if last.at_ms == first.at_ms:
        return None
    return max(0.0, (last.copied_bytes - first.copied_bytes) * 1000 / (last.at_ms - first.at_ms))
