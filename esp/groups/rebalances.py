"""Rebalances: the way of a group to its next generation, and the consequences of members that come and go. Sessions: the longest silence of
members.

Kafka's rules, but for one: every waiting request is answered, also when its member is removed or asks again.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.deadlines import Deadlines, Timer
from esp.groups.group import Group, GroupEvent, GroupState, Member
from esp.groups.group_log import generation_record
from esp.groups.responses import JoinResult, SyncResult
from esp.groups.settings import NEW_MEMBER_JOIN_TIMEOUT_US
from esp.model.errors import ErrorCode
from esp.model.now import Now


class Sessions:
    """The sessions of all members, and the time that clients have to join with the id that they were given.

    Args:
        deadlines: where the timers are.
        on_expired: called with a member that was silent for too long.
        on_pending_expired: called with an id with which no client joined.
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
        """The member has shown that it lives, or waits no more: its session lasts its full time again."""
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


_US_PER_MS: Final = 1_000
_REBALANCEABLE: Final = frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE})
_POSTPONEMENT_MIN_MS: Final = 100
"""The least time by which a rebalance is put off if no member has joined, whatever its members' timeouts."""


class Rebalances:
    """Moves groups through their states; the one place that does.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self.sessions: Final = Sessions(state.deadlines, self._on_session_expired, self._on_pending_expired)

    def rebalance(self, group: Group, now: Now) -> None:
        """Members came, went or changed: begin a rebalance, or end the one that is under way if no member is missing any more."""
        if group.state in _REBALANCEABLE:
            self.prepare(group, now)
        else:
            self.maybe_complete_join(group, now)

    def prepare(self, group: Group, now: Now) -> None:
        """Have all members join again. The first rebalance of an empty group waits for more of them."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self.fail_assignment(group, ErrorCode.rebalance_in_progress, now)
        group.pending_syncs.clear()
        group.sync_timer.cancel()
        is_initial = group.state is GroupState.EMPTY
        group.transit(GroupEvent.REBALANCE_NEEDED, now.wall_ms)
        if is_initial:
            delay_ms = self._state.settings.group_initial_rebalance_delay_ms
            group.has_new_member = False
            self._delay(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now)
        elif group.has_all_joined:
            self._complete_join(group, now)
        else:
            self._await_joins(group, group.rebalance_timeout_ms, now)

    def maybe_complete_join(self, group: Group, now: Now) -> bool:
        """Begin the next generation if no member is missing; not before the delay of a first rebalance is over."""
        if (
            group.state is not GroupState.PREPARING_REBALANCE
            or group.previous_state is GroupState.EMPTY
            or not group.has_all_joined
        ):
            return False
        self._complete_join(group, now)
        return True

    def expel(self, group: Group, member: Member) -> None:
        """Take a member out of its group; its waiting request, if any, is answered UNKNOWN_MEMBER_ID."""
        self.answer_join(group, member, JoinResult(error=ErrorCode.unknown_member_id))
        self.answer_sync(member, SyncResult(error=ErrorCode.unknown_member_id))
        group.remove(member)

    def kill(self, group: Group, error: ErrorCode, wall_ms: int) -> None:
        """The group is no more, or no more here: all waiting requests are answered with ``error``."""
        if group.state is GroupState.DEAD:
            return
        for member in group:
            self.answer_join(group, member, JoinResult(error=error, member_id=member.member_id))
            self.answer_sync(member, SyncResult(error=error))
            member.session.cancel()
        for timer in group.pending_joins.values():
            timer.cancel()
        group.join_timer.cancel()
        group.sync_timer.cancel()
        group.transit(GroupEvent.REMOVED, wall_ms)
        self._state.directory.remove(group)

    def begin(self, group: Group, now: Now) -> None:
        """A group with members comes about at once: from the log, or from one of the consumer protocol."""
        for member in group:
            self.sessions.restart(group, member, now)

    def suspend(self, group: Group) -> None:
        """The group is on its way to the consumer protocol: members that wait for an answer are to join again."""
        for member in group:
            self.answer_join(
                group, member, JoinResult(error=ErrorCode.rebalance_in_progress, member_id=member.member_id)
            )
            self.answer_sync(member, SyncResult(error=ErrorCode.rebalance_in_progress))
            member.session.cancel()
        for timer in group.pending_joins.values():
            timer.cancel()
        group.pending_joins.clear()
        group.join_timer.cancel()
        group.sync_timer.cancel()

    def resume(self, group: Group, now: Now) -> None:
        """The group stays what it is: its members have their full time again."""
        self.begin(group, now)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._await_joins(group, group.rebalance_timeout_ms, now)
        elif group.state is GroupState.COMPLETING_REBALANCE:
            self.prepare(group, now)

    def answer_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Answer the member's JoinGroup, if it waits."""
        ticket = member.join_ticket
        if ticket is not None:
            group.set_join_ticket(member, None)
            self._state.outbox.answer(ticket, result)

    def answer_sync(self, member: Member, result: SyncResult) -> None:
        """Answer the member's SyncGroup, if it waits."""
        ticket = member.sync_ticket
        if ticket is not None:
            member.sync_ticket = None
            self._state.outbox.answer(ticket, result)

    def generation(self, group: Group, member: Member) -> JoinResult:
        """The answer to a member about its generation; the leader's also lists the other members."""
        return JoinResult(
            member_id=member.member_id,
            generation_id=group.generation_id,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader_id or "",
            members=tuple(other.joined(group.protocol_name) for other in group) if group.is_leader(member) else (),
        )

    def tell_assignments(self, group: Group, now: Now) -> None:
        """Answer all members that wait for their assignments, and expect heartbeats of them again."""
        for member in group:
            if member.sync_ticket is not None:
                self.answer_sync(member, assignment(group, member))
                self.sessions.restart(group, member, now)

    def fail_assignment(self, group: Group, error: ErrorCode, now: Now) -> None:
        """No member has an assignment in this generation; the SyncGroups that wait for one are answered with ``error``."""
        for member in group:
            member.assignment = b""
            if member.sync_ticket is not None:
                self.answer_sync(member, SyncResult(error=error))
                self.sessions.restart(group, member, now)

    def on_synced(self, group: Group, member: Member) -> None:
        """A member has asked for its assignment."""
        group.pending_syncs.discard(member.member_id)
        if not group.pending_syncs:
            group.sync_timer.cancel()

    def _delay(self, group: Group, delay_ms: int, remaining_ms: int, now: Now) -> None:
        due_us = now.monotonic_us + delay_ms * _US_PER_MS
        self._state.deadlines.set(group.join_timer, due_us, partial(self._on_delay_over, group, delay_ms, remaining_ms))

    def _on_delay_over(self, group: Group, delay_ms: int, remaining_ms: int, now: Now) -> None:
        if not group.has_new_member or not remaining_ms:
            self._complete_join(group, now)
            return
        group.has_new_member = False
        next_delay_ms = min(self._state.settings.group_initial_rebalance_delay_ms, remaining_ms)
        self._delay(group, next_delay_ms, max(remaining_ms - delay_ms, 0), now)

    def _await_joins(self, group: Group, timeout_ms: int, now: Now) -> None:
        due_us = now.monotonic_us + timeout_ms * _US_PER_MS
        self._state.deadlines.set(group.join_timer, due_us, partial(self._complete_join, group))

    def _complete_join(self, group: Group, now: Now) -> None:
        """Make the next generation of the members that have joined, and of static members, which keep their place."""
        group.join_timer.cancel()
        for member in [member for member in group if not member.is_joining and not member.is_static]:
            self.expel(group, member)
        if len(group) and not group.elect_joined_leader():
            self._await_joins(group, max(group.rebalance_timeout_ms, _POSTPONEMENT_MIN_MS), now)
            return
        group.begin_generation(now.wall_ms)
        if group.state is GroupState.EMPTY:
            self._state.appends.append([generation_record(group, {})], now)
            return
        for member in group:
            group.pending_syncs.add(member.member_id)
            self.answer_join(group, member, self.generation(group, member))
            member.is_new = False
            self.sessions.restart(group, member, now)
        due_us = now.monotonic_us + group.rebalance_timeout_ms * _US_PER_MS
        self._state.deadlines.set(group.sync_timer, due_us, partial(self._on_syncs_due, group))

    def _on_syncs_due(self, group: Group, now: Now) -> None:
        if not group.pending_syncs:
            return
        for member_id in sorted(group.pending_syncs):
            member = group.find(member_id)
            assert member is not None
            self.expel(group, member)
        self.prepare(group, now)

    def _on_session_expired(self, group: Group, member: Member, now: Now) -> None:
        if member.needs_no_heartbeat:
            return
        self.expel(group, member)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group, now)
        else:
            self.prepare(group, now)

    def _on_pending_expired(self, group: Group, member_id: str, now: Now) -> None:
        del group.pending_joins[member_id]
        if group.state is GroupState.PREPARING_REBALANCE:
            self._complete_if_all_joined(group, now)

    def _complete_if_all_joined(self, group: Group, now: Now) -> None:
        """Unlike :meth:`maybe_complete_join` also within the delay of a first rebalance, as Kafka has it."""
        if group.has_all_joined:
            self._complete_join(group, now)


def assignment(group: Group, member: Member) -> SyncResult:
    """A member's assignment."""
    return SyncResult(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
