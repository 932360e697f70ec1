"""The entries of a plan's journal, one a line in the order of time, and the history that follows from all of them.

Facts that the cluster itself reports do not depend on the journal: a plan can be resumed where its journal is missing. Only the journal
holds the operators' orders, the rates before the plan, and the times of events. Times are milliseconds since the Unix epoch.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import msgspec

from esp.model.ids import TopicPartition


class Wish(Enum):
    """An operator's order for a plan that is being carried out, given from any terminal."""

    RUN = "run"
    PAUSE = "pause"
    CANCEL = "cancel"


class Begun(msgspec.Struct, tag="begun", frozen=True):
    """A process began to carry the plan out, for the first time or again."""

    at_ms: int
    plan_id: str


class Wished(msgspec.Struct, tag="wished", frozen=True):
    """An operator gave an order."""

    at_ms: int
    wish: Wish


class Throttling(msgspec.Struct, tag="throttling", frozen=True):
    """Throttles are about to be set for the first time; ``previous`` are the rates that there were, by setting."""

    at_ms: int
    previous: dict[str, str]


class Submitting(msgspec.Struct, tag="submitting", frozen=True):
    """Moves of these partitions are about to be submitted."""

    at_ms: int
    partitions: list[TopicPartition]


class Ended(msgspec.Struct, tag="ended", frozen=True):
    """A move has come to its end; ``stage`` is the name of the last one."""

    at_ms: int
    partition: TopicPartition
    stage: str
    reason: str


class Sample(msgspec.Struct, tag="sample", frozen=True):
    """The progress of the whole plan."""

    at_ms: int
    copied_bytes: int


class Unthrottled(msgspec.Struct, tag="unthrottled", frozen=True):
    """The throttles that were set are gone."""

    at_ms: int


class Finished(msgspec.Struct, tag="finished", frozen=True):
    """The plan is over; ``outcome`` is the name of what came of it."""

    at_ms: int
    outcome: str


class Replanned(msgspec.Struct, tag="replanned", frozen=True):
    """The plan is over, and another one for the same intent goes on; ``plan_path`` is its file, as the tool was given paths."""

    at_ms: int
    plan_path: str


Entry: TypeAlias = Begun | Wished | Throttling | Submitting | Ended | Sample | Unthrottled | Finished | Replanned
_decoder = msgspec.json.Decoder(Entry)


@dataclass
class History:
    """The state that follows from the entries of a journal."""

    plan_id: str | None = None
    wish: Wish = Wish.RUN
    previous_rates: dict[str, str] | None = None
    """Before throttles were set; None while none are."""
    is_unthrottled: bool = False
    """True if throttles were set and are gone."""
    began_ms: int | None = None
    finished: Finished | None = None
    successor: str | None = None
    """The file of the plan that goes on instead of this one."""
    submitted_ms: dict[TopicPartition, int] = field(default_factory=dict)
    ended: dict[TopicPartition, Ended] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        match entry:
            case Begun(at_ms, plan_id):
                self.plan_id = plan_id
                self.began_ms = at_ms if self.began_ms is None else self.began_ms
                self.finished = None
            case Wished(_, wish):
                self.wish = wish
            case Throttling(_, previous):
                self.is_unthrottled = False
                if self.previous_rates is None:  # a second one has seen the rates of the first
                    self.previous_rates = previous
            case Submitting(at_ms, partitions):
                self.submitted_ms.update(dict.fromkeys(partitions, at_ms))
            case Ended():
                self.ended[entry.partition] = entry
            case Sample():
                self.samples.append(entry)
            case Unthrottled():
                self.previous_rates = None
                self.is_unthrottled = True
            case Finished():
                self.finished = entry
            case Replanned(_, plan_path):
                self.successor = plan_path


def encode_entry(entry: Entry) -> bytes:
    """Return an entry as a line."""
    return msgspec.json.encode(entry) + b"\n"


def decode_entries(content: bytes) -> list[Entry]:
    """Read a journal. A line that is no entry is the rest of one whose writer was killed; no process acted on it."""
    return list(_decodable(content.split(b"\n")))


def _decodable(lines: Iterable[bytes]) -> Iterable[Entry]:
    for line in lines:
        try:
            yield _decoder.decode(line)
        except msgspec.DecodeError:
            continue
