"""A static member comes back without its id: it takes the place of the one that it was (KIP-345, KIP-814)."""

from dataclasses import dataclass, replace
from functools import partial

from esp.groups.group import Group
from esp.groups.group_log import generation_record
from esp.groups.member import Member, unique
from esp.groups.now import Now
from esp.groups.rebalances import Rebalances
from esp.groups.requests import JoinGroup, Protocol
from esp.groups.responses import JoinResult, SyncResult
from esp.groups.shard import Shard
from esp.groups.states import GroupState
from esp.model.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class _Return:
    """A return that is not committed yet, and what it takes to undo it."""

    group: Group
    member: Member
    generation_id: int
    ticket: object
    supports_skipping_assignment: bool
    former_leader_id: str | None
    former_member_id: str
    former_protocols: tuple[Protocol, ...]
    former_rebalance_timeout_ms: int
    former_session_timeout_ms: int


class StaticRejoin:
    """Replaces static members.

    Args:
        shard: the coordinator's state.
        rebalances: moves groups through their states.
    """

    def __init__(self, shard: Shard, rebalances: Rebalances) -> None:
        self._shard = shard
        self._rebalances = rebalances

    def replace(
        self, group: Group, member: Member, member_id: str, request: JoinGroup, ticket: object, now: Now
    ) -> None:
        """Let the member have a new id and what it joins with; whoever uses the old id is fenced from now on.

        In a stable group nothing else changes, if the group's protocol stays: the new id is committed before it is told. Otherwise there
        is a rebalance, or the member joins the one that is under way.
        """
        returned = _Return(
            group=group,
            member=member,
            generation_id=group.generation_id,
            ticket=ticket,
            supports_skipping_assignment=request.supports_skipping_assignment,
            former_leader_id=group.leader_id,
            former_member_id=member.member_id,
            former_protocols=member.protocols,
            former_rebalance_timeout_ms=member.rebalance_timeout_ms,
            former_session_timeout_ms=member.session_timeout_ms,
        )
        fenced = ErrorCode.fenced_instance_id
        self._rebalances.answer_join(group, member, JoinResult(error=fenced, member_id=member.member_id))
        self._rebalances.answer_sync(member, SyncResult(error=fenced))
        group.rename(member, member_id)
        group.update(member, unique(request.protocols), request.rebalance_timeout_ms, request.session_timeout_ms)
        group.set_join_ticket(member, ticket)
        self._rebalances.sessions.restart(group, member, now)
        if group.state is GroupState.STABLE and group.select_protocol() == group.protocol_name:
            assignments = {other.member_id: other.assignment for other in group}
            self._shard.appends.append(
                [generation_record(group, assignments)], now, outcome=partial(self._on_outcome, returned)
            )
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._rebalances.maybe_complete_join(group, now)
        else:
            # the leader may have been told of the old id, for which it makes its assignment
            self._rebalances.prepare(group, now)

    def _on_outcome(self, returned: _Return, error: ErrorCode | None, now: Now) -> None:
        group, member = returned.group, returned.member
        if member.join_ticket is not returned.ticket:
            return  # fenced, sent away, or in a later generation
        if group.state is not GroupState.STABLE or group.generation_id != returned.generation_id:
            return  # a rebalance has begun, which answers
        if error is not None:
            self._undo(returned, error, now)
            return
        result = self._rebalances.generation(group, member)
        if returned.supports_skipping_assignment:
            result = replace(result, skip_assignment=group.is_leader(member))
        else:
            # the id that led before: the member is to take itself for a follower, and assign nothing
            result = replace(result, leader=returned.former_leader_id or "", members=())
        self._rebalances.answer_join(group, member, result)

    def _undo(self, returned: _Return, error: ErrorCode, now: Now) -> None:
        group, member = returned.group, returned.member
        result = replace(
            self._rebalances.generation(group, member),
            error=error,
            member_id="",
            leader=returned.former_leader_id or "",
            members=(),
        )
        self._rebalances.answer_join(group, member, result)
        group.rename(member, returned.former_member_id)
        group.update(
            member,
            returned.former_protocols,
            returned.former_rebalance_timeout_ms,
            returned.former_session_timeout_ms,
        )
        self._rebalances.sessions.restart(group, member, now)
