"""What the clients of a run did and were told, as the checkers of histories want it."""

from collections.abc import Callable
from dataclasses import dataclass, field

from esp.model.ids import TopicId
from esp.simulation.checkers.client_history import Outcome


@dataclass(slots=True)
class SentBatch:
    """A batch that a producer sent; ``crc`` is the one in its header, which brokers keep."""

    topic: str
    topic_id: TopicId
    partition: int
    producer: str
    number: int
    """It counts this producer's batches for the partition, from 0."""
    data: bytes
    record_count: int
    crc: int
    is_idempotent: bool
    acks: int
    fate: Outcome = Outcome.UNKNOWN
    base_offset: int | None = None
    acked_s: float = -1.0


@dataclass(slots=True)
class History:
    """All of a run's batches in the order in which they were made, and counts of what else happened.

    Args:
        say: takes a line on what a client met with: its name, and the line.
    """

    say: Callable[[str, str], None]
    batches: list[SentBatch] = field(default_factory=list)
    acked_records: int = 0
    read_records: int = 0
    refusals: int = 0
    """Answers with an error."""
    no_answers: int = 0
    """Requests that ended without an answer."""
    done: dict[str, int] = field(default_factory=dict)
    """How often administrators did what, by name."""

    def on_done(self, who: str, what: str, details: str) -> None:
        """An administrator was told that something is done."""
        self.done[what] = self.done.get(what, 0) + 1
        self.say(who, f"{what}: {details}")

    def on_refusal(self, who: str, why: str) -> None:
        """A client got an error for an answer."""
        self.refusals += 1
        self.say(who, f"is refused: {why}")

    def on_no_answer(self, who: str, why: str) -> None:
        """A client got no answer."""
        self.no_answers += 1
        self.say(who, f"gets nothing: {why}")
