"""Sessions: how long members may be silent."""

from collections.abc import Callable
from functools import partial

from esp.groups.deadlines import Deadlines, Timer
from esp.groups.group import Group
from esp.groups.member import Member
from esp.groups.now import Now
from esp.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_US

_US_PER_MS = 1_000


class Sessions:
    """The sessions of all members, and the time that clients have to join with the id that they were given.

    Args:
        deadlines: where the timers are.
        on_expired: told of a member that was silent for too long.
        on_pending_expired: told of an id with which nobody joined.
    """

    def __init__(
        self,
        deadlines: Deadlines,
        on_expired: Callable[[Group, Member, Now], None],
        on_pending_expired: Callable[[Group, str, Now], None],
    ) -> None:
        self._deadlines = deadlines
        self._on_expired = on_expired
        self._on_pending_expired = on_pending_expired

    def restart(self, group: Group, member: Member, now: Now) -> None:
        """The member was heard of, or waits no more: its session lasts its full time again."""
        due_us = now.monotonic_us + member.session_timeout_ms * _US_PER_MS
        timer = member.session
        if timer.due_us is not None and timer.due_us <= due_us:
            self._deadlines.put_off(timer, due_us)
        else:
            self._deadlines.set(timer, due_us, partial(self._on_expired, group, member))

    def begin(self, group: Group, member: Member, now: Now) -> None:
        """A new member waits for its first generation."""
        due_us = now.monotonic_us + NEW_MEMBER_JOIN_TIMEOUT_US
        self._deadlines.set(member.session, due_us, partial(self._on_expired, group, member))

    def await_join(self, group: Group, member_id: str, session_timeout_ms: int, now: Now) -> None:
        """A client was given an id, and is to join with it."""
        timer = group.pending_joins[member_id] = Timer()
        due_us = now.monotonic_us + session_timeout_ms * _US_PER_MS
        self._deadlines.set(timer, due_us, partial(self._on_pending_expired, group, member_id))
