"""Things that are due at a time: thousands of sessions, of which nearly all are put off before they end.

To put a timer off costs one assignment: its place in the heap stays, and when that comes up it goes to where it belongs by now.
"""

import heapq
from collections.abc import Callable
from typing import Final

from esp.model.now import Now

DUE_MAX: Final = 8
"""Things that one call does: thousands may be due at the same time, as the sessions of a group that has lost its network."""

Act = Callable[[Now], None]


def _do_nothing(_now: Now) -> None: ...


class Timer:
    """One thing that may be due once at a time; it belongs to the :class:`Deadlines` that set it."""

    __slots__ = ("_queued_us", "act", "due_us")

    def __init__(self) -> None:
        self.due_us: int | None = None
        """The time at which it is due; None if it is not set."""
        self.act: Act = _do_nothing
        """The function that is called then."""
        self._queued_us: int | None = None

    @property
    def is_set(self) -> bool:
        """True if it waits for its time."""
        return self.due_us is not None

    def cancel(self) -> None:
        """Forget the deadline."""
        self.due_us = None

    @property
    def is_queued(self) -> bool:
        """True if it has a place in the heap."""
        return self._queued_us is not None

    def is_queued_at(self, due_us: int) -> bool:
        """True if the heap's entry for this time is the one that counts."""
        return self._queued_us == due_us

    def queue(self, due_us: int | None) -> None:
        """Remember where in the heap it stands; None if nowhere."""
        self._queued_us = due_us

    def is_queued_by(self, due_us: int) -> bool:
        """True if the heap will come to it by this time."""
        return self._queued_us is not None and self._queued_us <= due_us


_Entry = tuple[int, int, Timer]


class Deadlines:
    """All timers of a coordinator, in a heap."""

    def __init__(self) -> None:
        self._heap: Final[list[_Entry]] = []
        self._sequence = 0

    def set(self, timer: Timer, due_us: int, act: Act) -> None:
        """Let ``act`` be done at this time, instead of the deadline that the timer had before."""
        timer.due_us = due_us
        timer.act = act
        if not timer.is_queued_by(due_us):
            self._push(timer, due_us)

    def put_off(self, timer: Timer, due_us: int) -> None:
        """Let a timer that is set be due at a later time than it is, for the same act."""
        timer.due_us = due_us
        if not timer.is_queued:
            self._push(timer, due_us)

    @property
    def next_us(self) -> int | None:
        """When :meth:`run` should be called: no later than anything is due, and None if nothing is."""
        heap = self._heap
        while heap:
            queued_us, _sequence, timer = heap[0]
            if timer.is_queued_at(queued_us) and timer.is_set:
                return queued_us
            heapq.heappop(heap)
            if timer.is_queued_at(queued_us):
                timer.queue(None)
        return None

    def run(self, now: Now) -> None:
        """Do what is due, :data:`DUE_MAX` things at most: then the next call is due at once. Timers that are set meanwhile are left for
        the next call, however soon it is due.
        """
        now_us = now.monotonic_us
        due: list[Timer] = []
        heap = self._heap
        while heap and heap[0][0] <= now_us and len(due) < DUE_MAX:
            queued_us, _sequence, timer = heapq.heappop(heap)
            if not timer.is_queued_at(queued_us):
                continue
            timer.queue(None)
            if timer.due_us is None:
                continue
            if timer.due_us <= now_us:
                due.append(timer)
            else:
                self._push(timer, timer.due_us)
        for timer in due:
            if timer.is_set and not timer.is_queued:  # else something that was done before has cancelled or set it
                timer.cancel()
                timer.act(now)

    def _push(self, timer: Timer, due_us: int) -> None:
        self._sequence += 1
        timer.queue(due_us)
        heapq.heappush(self._heap, (due_us, self._sequence, timer))
