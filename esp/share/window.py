"""The window of a share partition: the records between its start offset and its end offset, each in a state, in runs of like ones.

The window has no holes: an offset that is not in the log stands in it like any other until it is discarded. Records below it are done with;
those at its end and beyond were never acquired. A run may be on its way to another state: until the write that persists the change has
succeeded it is locked in its old one (SHARE-6).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from esp.schemas.share_state_records import RecordState, StateBatch

NO_MEMBER: Final = ""
NO_LOCK_US: Final = 0
NO_WRITE: Final = 0

_TERMINAL: Final = frozenset(state for state in RecordState if state.is_terminal)


class Run(NamedTuple):
    """Neighbours that are alike in everything."""

    start_offset: int
    end_offset: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = NO_MEMBER
    """The member that has acquired them."""
    lock_us: int = NO_LOCK_US
    """The monotonic time at which their lock ends."""
    write: int = NO_WRITE
    """The token of the write that is to change their state."""
    target: RecordState | None = None
    """Their state once that write has succeeded."""
    is_rejected: bool = False
    """True if the records are ARCHIVING, or will be, and their member has said that no attempt can help."""

    @property
    def is_free(self) -> bool:
        """True if a member may acquire them."""
        return self.state is RecordState.AVAILABLE

    @property
    def is_settled(self) -> bool:
        """True if they are done with, for good."""
        return self.state.is_terminal

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end_offset - self.start_offset

    def cut(self, start_offset: int, end_offset: int) -> "Run":
        """The part of them in a range."""
        first, end = max(self.start_offset, start_offset), min(self.end_offset, end_offset)
        if first == self.start_offset and end == self.end_offset:
            return self
        return self._replace(start_offset=first, end_offset=end)

    def is_like(self, other: "Run") -> bool:
        """True if both differ in nothing but their offsets."""
        return self[2:] == other[2:]


class Window:
    """The runs, sorted, without holes; neighbours are never alike.

    Args:
        start_offset: the first offset that is not done with.
        batches: states that were persisted, sorted and apart, none below the start offset. What lies between them was acquired and never
            acknowledged, or is not in the log: it is available (KAFKA-18494).
    """

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        self._runs: list[Run] = []
        self._start_offset = start_offset
        self._end_offset = start_offset
        self._completing = 0
        self._acquired = 0
        self._condemned = 0
        self.discarded_end_offset = start_offset
        """The end of the offsets that were discarded, of which no write need have told."""
        self._free_from = start_offset
        """No run below this offset is free."""
        for batch in batches:
            self.extend(batch.start_offset, RecordState.AVAILABLE)
            self._append(Run(batch.start_offset, batch.end_offset, batch.state, batch.delivery_count))
        self.advance()

    # What there is.

    @property
    def start_offset(self) -> int:
        """The first offset that is not done with."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The first offset that was never acquired."""
        return self._end_offset

    @property
    def span(self) -> int:
        """The number of offsets in the window."""
        return self._end_offset - self._start_offset

    @property
    def acquired_count(self) -> int:
        """The number of records that members have."""
        return self._acquired

    @property
    def condemned_count(self) -> int:
        """The number of records whose dead letters are still to be written."""
        return self._condemned

    @property
    def complete_count(self) -> int:
        """The number of offsets in the window that are done with, or will be once their writes have succeeded."""
        return self._completing

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def find_free(self) -> int | None:
        """The first offset that a member may acquire."""
        index = self._index(self._free_from)
        while index < len(self._runs):
            run = self._runs[index]
            if run.is_free:
                self._free_from = max(run.start_offset, self._free_from)
                return self._free_from
            index += 1
        self._free_from = self._end_offset
        return None

    def count_free(self, start_offset: int, wanted: int) -> tuple[int, int]:
        """The end of the first so many free offsets from one on, or else that of the window, and the number that is missing."""
        for index in range(self._index(start_offset), len(self._runs)):
            run = self._runs[index]
            if run.is_free and run.end_offset > start_offset:
                first = max(run.start_offset, start_offset)
                wanted -= run.end_offset - first
                if wanted <= 0:
                    return run.end_offset + wanted, 0
        return self._end_offset, wanted

    def end_of(self, start_offset: int, count: int, bound: int) -> int:
        """The end of so many runs from an offset in the window on, no further than the bound."""
        last = min(self._index(start_offset) + count, len(self._runs)) - 1
        return min(self._runs[last].end_offset, bound)

    def between(self, start_offset: int, end_offset: int) -> Iterator[Run]:
        """The runs of a range, cut to it."""
        for index in range(self._index(start_offset), len(self._runs)):
            run = self._runs[index]
            if run.start_offset >= end_offset:
                return
            if run.end_offset <= start_offset:
                continue
            yield run.cut(start_offset, end_offset)

    def overlaps(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Run]]:
        """The runs of ranges that are sorted and apart, cut to them, each with the place of its range."""
        index: int | None = None
        for place, (start_offset, end_offset) in enumerate(ranges):
            if index is None or (index < len(self._runs) and self._runs[index].end_offset < start_offset):
                index = self._index(start_offset)
            while index < len(self._runs) and self._runs[index].start_offset < end_offset:
                run = self._runs[index]
                if run.end_offset > start_offset:
                    yield place, run.cut(start_offset, end_offset)
                if run.end_offset > end_offset:
                    break
                index += 1

    # Changes.

    def extend(self, end_offset: int, state: RecordState) -> None:
        """Let the window end here, if it ends before; the new offsets were never delivered."""
        if end_offset > self._end_offset:
            self._append(Run(self._end_offset, end_offset, state))

    def change(self, start_offset: int, end_offset: int, to: Callable[[Run], Run]) -> None:
        """Change the runs of a range, which lies in the window. ``to`` gets each, cut to the range, and keeps its offsets."""
        first = self._split(start_offset)
        end = self._split(end_offset)
        for index in range(first, end):
            old = self._runs[index]
            new = to(old)
            if new is old:
                continue
            self._count(old, -1)
            self._count(new, 1)
            self._runs[index] = new
            if new.is_free:
                self._free_from = min(self._free_from, new.start_offset)
        self._join(first, end)

    def replace(self, runs: Sequence[Run]) -> None:
        """Have these in place of what is in their range, which lies in the window; they stand end to end."""
        first, end = self._split(runs[0].start_offset), self._split(runs[-1].end_offset)
        for old in self._runs[first:end]:
            self._count(old, -1)
        for new in runs:
            self._count(new, 1)
            if new.is_free:
                self._free_from = min(self._free_from, new.start_offset)
        self._runs[first:end] = runs
        self._join(first, first + len(runs))

    def advance(self) -> None:
        """Let the window begin at the first offset that is not done with."""
        done = 0
        for run in self._runs:
            if not run.is_settled:
                break
            self._count(run, -1)
            self._start_offset = run.end_offset
            done += 1
        del self._runs[:done]

    def drop_below(self, offset: int) -> None:
        """The log begins at this offset: nothing below it is in the window any more, acquired or not."""
        if offset <= self._start_offset:
            return
        if offset >= self._end_offset:
            self._runs.clear()
            self._completing = self._acquired = self._condemned = 0
            self._start_offset = self._end_offset = self._free_from = offset
            return
        first = self._split(offset)
        for run in self._runs[:first]:
            self._count(run, -1)
        del self._runs[:first]
        self._start_offset = offset
        self.advance()

    def _append(self, run: Run) -> None:
        self._end_offset = run.end_offset
        self._count(run, 1)
        if self._runs and self._runs[-1].is_like(run):
            self._runs[-1] = self._runs[-1]._replace(end_offset=run.end_offset)
        else:
            self._runs.append(run)
        if run.is_free:
            self._free_from = min(self._free_from, run.start_offset)

    def _index(self, offset: int) -> int:
        """The index of the run with this offset; the first one if the offset is below the window."""
        return max(0, bisect_right(self._runs, offset, key=_start_of) - 1)

    def _split(self, offset: int) -> int:
        """The index of the run that begins at this offset, which is in the window or its end."""
        if offset >= self._end_offset:
            return len(self._runs)
        index = self._index(offset)
        run = self._runs[index]
        if run.start_offset == offset:
            return index
        self._runs[index : index + 1] = (run._replace(end_offset=offset), run._replace(start_offset=offset))
        return index + 1

    def _join(self, first: int, end: int) -> None:
        """Join like neighbours among these runs and the ones beside them."""
        begin, stop = max(0, first - 1), min(len(self._runs), end + 1)
        joined: list[Run] = []
        for run in self._runs[begin:stop]:
            if joined and joined[-1].is_like(run):
                joined[-1] = joined[-1]._replace(end_offset=run.end_offset)
            else:
                joined.append(run)
        self._runs[begin:stop] = joined

    def _count(self, run: Run, sign: int) -> None:
        state, target = run.state, run.target
        size = sign * (run.end_offset - run.start_offset)
        if (state if target is None else target) in _TERMINAL:
            self._completing += size
        if state is RecordState.ACQUIRED:
            self._acquired += size
        elif state is RecordState.ARCHIVING:
            self._condemned += size


def _start_of(run: Run) -> int:
    return run.start_offset
