"""LeaveGroup and Heartbeat: members go, or say that they are there."""

from esp.groups.group import Group
from esp.groups.now import Now
from esp.groups.rebalances import Rebalances
from esp.groups.requests import Heartbeat, LeaveGroup, LeavingMember
from esp.groups.responses import LeaveResult, LeftMember
from esp.groups.shard import Shard
from esp.groups.states import GroupState
from esp.model.errors import ApiError, ErrorCode


class Leaving:
    """Decides on LeaveGroup and Heartbeat.

    Args:
        shard: the coordinator's state.
        rebalances: moves groups through their states.
    """

    def __init__(self, shard: Shard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def heartbeat(self, request: Heartbeat, now: Now) -> ErrorCode:
        """What the member is told."""
        if not request.group_id:
            return ErrorCode.invalid_group_id
        group = self._shard.directory.find(request.group_id)
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
            self._shard.outbox.answer(ticket, LeaveResult(error=ErrorCode.invalid_group_id))
            return
        group = self._shard.directory.find(request.group_id)
        if group is None:
            unknown = tuple(_left(member, ErrorCode.unknown_member_id) for member in request.members)
            self._shard.outbox.answer(ticket, LeaveResult(members=unknown))
            return
        generation_id = group.generation_id
        members = tuple(_left(member, self._remove(group, member)) for member in request.members)
        if any(member.error is ErrorCode.none for member in members) and group.state is not GroupState.EMPTY:
            self._rebalances.rebalance(group, now)
        result = LeaveResult(members=members)
        if group.state is not GroupState.EMPTY or group.generation_id == generation_id:
            self._shard.outbox.answer(ticket, result)
            return

        def answer(error: ErrorCode | None, _now: Now) -> None:
            self._shard.outbox.answer(ticket, result if error is None else LeaveResult(error=error))

        self._shard.appends.after_all(answer, now)

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
