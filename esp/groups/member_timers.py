"""Timers of the members of groups whose coordinator assigns: their sessions, and the time that they have to do their part."""

from collections.abc import Callable
from functools import partial
from typing import Final

from esp.groups.deadlines import Deadlines, Timer
from esp.model.now import Now

_US_PER_MS: Final = 1_000

OnExpired = Callable[[str, str, Now], None]
"""Called with the ids of a group and of its member."""


class MemberTimers:
    """One kind of timer of the members of all groups of one protocol. A timer may outlive its member: then nothing is done when it is due.

    Args:
        deadlines: where the timers are.
        on_expired: called when one is due.
    """

    def __init__(self, deadlines: Deadlines, on_expired: OnExpired) -> None:
        self._deadlines = deadlines
        self._on_expired = on_expired
        self._timers: dict[tuple[str, str], Timer] = {}

    def restart(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """The member has its full time again."""
        key = group_id, member_id
        timer = self._timers.get(key)
        if timer is None:
            timer = self._timers[key] = Timer()
        due_us = now.monotonic_us + timeout_ms * _US_PER_MS
        if timer.due_us is not None and timer.due_us <= due_us:
            self._deadlines.put_off(timer, due_us)
        else:
            self._deadlines.set(timer, due_us, partial(self._on_due, key))

    def cancel(self, group_id: str, member_id: str) -> None:
        """The member is gone, or needs no time any more."""
        timer = self._timers.pop((group_id, member_id), None)
        if timer is not None:
            timer.cancel()

    def is_running(self, group_id: str, member_id: str) -> bool:
        """True if the member's time runs."""
        return (group_id, member_id) in self._timers

    def _on_due(self, key: tuple[str, str], now: Now) -> None:
        del self._timers[key]
        self._on_expired(*key, now)
