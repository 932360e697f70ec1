"""The actions of a run's clients, and the answers that they got, as the checkers of histories want them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from esp.model.ids import TopicId
from esp.records.batch_header import read_header
from esp.simulation.checkers.client_history import Outcome
from esp.simulation.workload.batch_mark import BatchMark


class LaneKey(NamedTuple):
    """The batches that a producer sends to one partition."""

    producer: str
    topic: str
    topic_id: TopicId
    partition: int


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

    @property
    def lane(self) -> LaneKey:
        """The lane to which it belongs."""
        return LaneKey(self.producer, self.topic, self.topic_id, self.partition)

    @property
    def mark(self) -> BatchMark:
        """Its mark, which no other batch has."""
        header = read_header(self.data)
        return BatchMark(self.crc, len(self.data), header.producer_id, header.base_sequence)


@dataclass(slots=True)
class History:
    """All of a run's batches in the order in which they were made, and counts of what else happened.

    Args:
        say: takes a line on what a client met with: its name, and the line.
    """

    say: Callable[[str, str], None]
    batches: list[SentBatch] = field(default_factory=list)
    lanes: dict[LaneKey, float] = field(default_factory=dict)
    """The time at which the last batch of each idempotent producer was acknowledged, -1 while none was; of lanes that are not given up."""
    acked_records: int = 0
    read_records: int = 0
    refusals: int = 0
    """Answers with an error."""
    no_answers: int = 0
    """Requests that ended without an answer."""
    retired_batches: int = 0
    """Batches that were committed and gone before their producers heard of them, and were refused then."""
    done: dict[str, int] = field(default_factory=dict)
    """The number of times that administrators did each action, by its name."""

    def on_sent(self, batch: SentBatch) -> None:
        """A producer has made a batch."""
        self.batches.append(batch)
        if batch.is_idempotent:
            self.lanes.setdefault(batch.lane, -1.0)

    def on_acked(self, batch: SentBatch, now_s: float) -> None:
        """A batch was acknowledged."""
        batch.acked_s = now_s
        self.acked_records += batch.record_count
        if batch.lane in self.lanes:
            self.lanes[batch.lane] = now_s

    def on_given_up(self, lane: LaneKey) -> None:
        """A producer tries no more, even if the topic comes back."""
        self.lanes.pop(lane, None)

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
