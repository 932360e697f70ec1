"""The share partitions of a coordinator, and the requests about them that wait.

A share partition has one record at most on its way into the log. Requests that come meanwhile wait until the log has decided about it, and
are then decided together, in their order, with one record for all that they change. So what is decided rests on committed state, and an
answer is given when all that it tells is committed.
"""

from collections import deque
from dataclasses import dataclass, field

from esp.schemas.share_state_records import ShareStateKey
from esp.share.coordinator.draft import Draft, Snapshot, Topics, Written
from esp.share.coordinator.requests import Request, Result
from esp.share.coordinator.state import ShareState

NOWHERE = -1
"""The offset of a record whose place in the log is not known yet."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A request that is not answered."""

    request: Request
    ticket: object
    deadline_us: int
    """The answer is given up then."""


@dataclass(slots=True, eq=False)
class Entry:
    """A share partition."""

    key: ShareStateKey
    state: ShareState | None = None
    """The committed state."""
    snapshot: Snapshot | None = None
    """The newest committed one; None without a state."""
    snapshot_offset: int = NOWHERE
    """Its place in the log."""
    snapshot_us: int = 0
    """The monotonic time at which it was committed, or loaded."""
    update_count: int = 0
    """The updates after it."""
    is_read: bool = False
    """True if a leader has read the state since it began (SHARE-48)."""
    is_busy: bool = False
    """True while a record is on its way."""
    queue: deque[Waiting] = field(default_factory=deque)
    """Requests that are not decided."""
    wants_snapshot: bool = False
    """True if the state is to be written again as a whole, so that the old records of it can go."""
    may_be_gone: bool = False
    """True if the topic was deleted, as far as was seen."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to be kept of it."""
        return self.state is None and not self.is_busy and not self.queue


@dataclass(slots=True)
class Part:
    """A record of one share partition that is on its way, and the answers that it holds up."""

    entry: Entry
    written: Written
    answers: list[tuple[Waiting, Result]]


def decide(
    entry: Entry, topics: Topics, updates_max: int, now_ms: int
) -> tuple[Written | None, list[tuple[Waiting, Result]]]:
    """Decide about all that waits for a share partition which has no record on its way.

    Returns:
        The record to be written, None if nothing changes; and the answers, to be given when it is committed.
    """
    assert not entry.is_busy, "decisions rest on committed state"
    draft = Draft(entry.key, entry.state, topics, is_read=entry.is_read)
    answers = [(waiting, draft.answer(waiting.request)) for waiting in entry.queue]
    entry.queue.clear()
    if entry.may_be_gone:
        draft.forget_if_gone()
    if entry.wants_snapshot:
        draft.take_snapshot()
    entry.may_be_gone = entry.wants_snapshot = False
    written = draft.write(entry.snapshot, entry.update_count, updates_max, now_ms)
    if written is None:
        entry.is_read = draft.is_read
    return written, answers
