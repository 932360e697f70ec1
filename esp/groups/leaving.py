"""LeaveGroup and Heartbeat: members go, or show that they live. SyncGroup: members ask for their assignments, the leader brings them."""

from collections.abc import Mapping
from functools import partial

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import Group, GroupEvent, GroupState, Member
from esp.groups.group_log import generation_record
from esp.groups.rebalances import Rebalances, assignment
from esp.groups.requests import Heartbeat, LeaveGroup, LeavingMember, SyncGroup
from esp.groups.responses import LeaveResult, LeftMember, SyncResult
from esp.model.errors import ApiError, ErrorCode
from esp.model.now import Now


class Syncing:
    """Decides on SyncGroup.

    Args:
        state: the coordinator's state.
        rebalances: moves groups through their states.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances) -> None:
        self._state = state
        self._rebalances = rebalances

    def sync(self, request: SyncGroup, ticket: object, now: Now) -> None:
        """Answer when the leader's assignments are committed."""
        try:
            group, member = self._require_member(request)
        except ApiError as refusal:
            self._state.outbox.answer(ticket, SyncResult(error=refusal.code))
            return
        self._rebalances.on_synced(group, member)
        if group.state is GroupState.STABLE:
            self._state.outbox.answer(ticket, assignment(group, member))
            return
        self._rebalances.answer_sync(member, SyncResult(error=ErrorCode.rebalance_in_progress))  # it asks again
        member.sync_ticket = ticket
        if group.is_leader(member):
            assignments = {other.member_id: request.assignments.get(other.member_id, b"") for other in group}
            self._state.appends.append(
                [generation_record(group, assignments)],
                now,
                outcome=partial(self._on_outcome, group, group.generation_id, assignments),
            )

    def _require_member(self, request: SyncGroup) -> tuple[Group, Member]:
        """The member that asks.

        Raises:
            ApiError: the client is no member, or of another generation, or the next generation is being made.
        """
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        group = self._state.directory.find(request.group_id)
        if group is None or group.state is GroupState.EMPTY:
            raise ApiError(ErrorCode.unknown_member_id)
        member = group.require_member(request.member_id, request.group_instance_id)
        if request.generation_id != group.generation_id:
            raise ApiError(ErrorCode.illegal_generation)
        if _differ(request.protocol_type, group.protocol_type) or _differ(request.protocol_name, group.protocol_name):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise ApiError(ErrorCode.rebalance_in_progress)
        return group, member

    def _on_outcome(
        self, group: Group, generation_id: int, assignments: Mapping[str, bytes], error: ErrorCode | None, now: Now
    ) -> None:
        if group.state is not GroupState.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # a rebalance has begun, or the group is gone: both answer
        if self._state.directory.find(group.group_id) is not group:
            return  # it is on its way to the consumer protocol
        if error is not None:
            self._rebalances.fail_assignment(group, error, now)
            self._rebalances.prepare(group, now)
            return
        for member in group:
            member.assignment = assignments.get(member.member_id, b"")
        self._rebalances.tell_assignments(group, now)
        group.transit(GroupEvent.ASSIGNMENT_COMMITTED, now.wall_ms)


def _differ(asked: str | None, actual: str | None) -> bool:
    return asked is not None and actual is not None and asked != actual


class Leaving:
    """Decides on LeaveGroup and Heartbeat.

    Args:
        state: the coordinator's state.
        rebalances: moves groups through their states.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances) -> None:
        self._state = state
        self._rebalances = rebalances

    def heartbeat(self, request: Heartbeat, now: Now) -> ErrorCode:
        """Return the error for the member."""
        if not request.group_id:
            return ErrorCode.invalid_group_id
        group = self._state.directory.find(request.group_id)
        if group is None:
            return ErrorCode.unknown_member_id
        try:
            member = group.require_member(request.member_id, request.group_instance_id)
        except ApiError as refusal:
            return refusal.code
        if request.generation_id != group.generation_id:
            return ErrorCode.illegal_generation
        self._rebalances.sessions.restart(group, member, now)
        if group.state is GroupState.PREPARING_REBALANCE:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def leave(self, request: LeaveGroup, ticket: object, now: Now) -> None:
        """Answer at once, or if the group is empty now when that is committed."""
        if not request.group_id:
            self._state.outbox.answer(ticket, LeaveResult(error=ErrorCode.invalid_group_id))
            return
        group = self._state.directory.find(request.group_id)
        if group is None:
            unknown = tuple(_left(member, ErrorCode.unknown_member_id) for member in request.members)
            self._state.outbox.answer(ticket, LeaveResult(members=unknown))
            return
        generation_id = group.generation_id
        members = tuple(_left(member, self._remove(group, member)) for member in request.members)
        if any(member.error is ErrorCode.none for member in members) and group.state is not GroupState.EMPTY:
            self._rebalances.rebalance(group, now)
        result = LeaveResult(members=members)
        if group.state is not GroupState.EMPTY or group.generation_id == generation_id:
            self._state.outbox.answer(ticket, result)
            return

        def answer(error: ErrorCode | None, _now: Now) -> None:
            self._state.outbox.answer(ticket, result if error is None else LeaveResult(error=error))

        self._state.appends.after_all(answer, now)

    def _remove(self, group: Group, leaving: LeavingMember) -> ErrorCode:
        """Take one out; the error says why not."""
        if not leaving.member_id:  # an administrator knows the instance only (KIP-345)
            static = group.find_static(leaving.group_instance_id)
            if static is None:
                return ErrorCode.unknown_member_id
            self._rebalances.expel(group, static)
            return ErrorCode.none
        pending = group.pending_joins.pop(leaving.member_id, None)
        if pending is not None:
            pending.cancel()
            return ErrorCode.none
        try:
            member = group.require_member(leaving.member_id, leaving.group_instance_id)
        except ApiError as refusal:
            return refusal.code
        self._rebalances.expel(group, member)
        return ErrorCode.none


def _left(member: LeavingMember, error: ErrorCode) -> LeftMember:
    return LeftMember(member.member_id, member.group_instance_id, error)
