"""JoinGroup: a client wants to be a member of the next generation.

A static member comes back without its id: it takes the place of its former self (KIP-345, KIP-814).
"""

from dataclasses import dataclass, replace
from functools import partial

from esp.groups.changes import append_changes
from esp.groups.consumer.classic_members import ClassicMembers
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import Group, GroupState, Member, unique
from esp.groups.group_log import generation_record, new_group_record
from esp.groups.rebalances import Rebalances
from esp.groups.requests import JoinGroup, Protocol
from esp.groups.responses import JoinResult, SyncResult
from esp.model.errors import ApiError, ErrorCode
from esp.model.now import Now
from esp.schemas.group_record_codec import STRING_BYTES_MAX


@dataclass(frozen=True, slots=True)
class _Return:
    """A return that is not committed yet, and the values that undo it."""

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
        state: the coordinator's state.
        rebalances: moves groups through their states.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances) -> None:
        self._state = state
        self._rebalances = rebalances

    def replace(
        self, group: Group, member: Member, member_id: str, request: JoinGroup, ticket: object, now: Now
    ) -> None:
        """Give the member a new id and the protocols of its request; a client that uses the old id is fenced from now on.

        In a stable group nothing else changes, if the group's protocol stays: the new id is committed before it is sent. Otherwise there
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
            self._state.appends.append(
                [generation_record(group, assignments)], now, outcome=partial(self._on_outcome, returned)
            )
        elif group.state is GroupState.PREPARING_REBALANCE:
            self._rebalances.maybe_complete_join(group, now)
        else:
            # the leader may know the old id, for which it makes its assignment
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
        # The session may have ended meanwhile, as a member that waits may be silent.
        self._rebalances.sessions.restart(group, member, now)

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


class Joining:
    """Decides on JoinGroup.

    Args:
        state: the coordinator's state.
        rebalances: moves groups through their states.
        classic_members: decides it for consumer groups that have members.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances, classic_members: ClassicMembers) -> None:
        self._state = state
        self._rebalances = rebalances
        self._classic_members = classic_members
        self._static_rejoin = StaticRejoin(state, rebalances)

    def join(self, request: JoinGroup, ticket: object, now: Now) -> None:
        """Answer now, or when the generation begins; a group that is not there is made if the client has no member id yet."""
        try:
            self._check(request)
            if self._state.shares.find(request.group_id) is not None:
                raise ApiError(ErrorCode.inconsistent_group_protocol)
            if self._classic_members.has(request.group_id):
                self._classic_members.join(request, ticket, now)
                return
            self._replace_consumers(request.group_id, now)
            group = self._state.directory.find(request.group_id)
            if group is None:
                if request.member_id:
                    raise ApiError(ErrorCode.unknown_member_id)
                group = Group(request.group_id, now.wall_ms)
                self._state.directory.add(group)
                self._state.appends.append(
                    [new_group_record(group)],
                    now,
                    settle=partial(self._on_group_settled, group),
                    outcome=partial(self._on_group_outcome, group, ticket),
                )
        except ApiError as refusal:
            self._refuse(ticket, refusal.code, request.member_id)
            return
        try:
            self._admit(group, request, ticket, now)
        except ApiError as refusal:
            member_id = "" if refusal.code is ErrorCode.group_max_size_reached else request.member_id
            self._refuse(ticket, refusal.code, member_id)

    def _replace_consumers(self, group_id: str, now: Now) -> None:
        """An empty consumer group of this name gives way; its offsets stay."""
        consumers = self._state.consumers.find(group_id)
        if consumers is not None:
            append_changes(self._state, (), now, removed_consumers=(consumers,))

    def _check(self, request: JoinGroup) -> None:
        """Refuse requests that no group could take."""
        settings = self._state.settings
        if not request.group_id or not _is_writable(request.group_id):
            raise ApiError(ErrorCode.invalid_group_id)
        if not (
            settings.group_min_session_timeout_ms <= request.session_timeout_ms <= settings.group_max_session_timeout_ms
        ):
            raise ApiError(ErrorCode.invalid_session_timeout)
        names = [request.client_id, request.client_host, request.protocol_type, request.group_instance_id or ""]
        names += (protocol.name for protocol in request.protocols)
        if not all(_is_writable(name, _MEMBER_ID_SUFFIX_SIZE) for name in names):
            raise ApiError(ErrorCode.invalid_request)

    def _admit(self, group: Group, request: JoinGroup, ticket: object, now: Now) -> None:
        """Let the client into the group.

        Raises:
            ApiError: it is refused.
        """
        self._require_room(group, request.member_id, now)
        if not group.supports(request.protocol_type, request.protocols):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if request.member_id:
            self._rejoin(group, request, ticket, now)
            return
        member_id = f"{_name(request)}-{self._state.random.uuid()}"
        static = group.find_static(request.group_instance_id)
        if static is not None:
            self._static_rejoin.replace(group, static, member_id, request, ticket, now)
        elif request.requires_known_member_id and request.group_instance_id is None:
            self._rebalances.sessions.await_join(group, member_id, request.session_timeout_ms, now)
            self._refuse(ticket, ErrorCode.member_id_required, member_id)
        else:
            self._add(group, member_id, request, ticket, now)

    def _require_room(self, group: Group, member_id: str, now: Now) -> None:
        """Hold the group to ``group.max.size``.

        While members join, the members that have joined count, so that a group that is too large (the setting was lowered) turns away the
        last ones to come.
        """
        size_max = self._state.settings.group_max_size
        member = group.find(member_id)
        if group.state is GroupState.EMPTY:
            return
        if group.state is GroupState.PREPARING_REBALANCE:
            if (member is not None and member.is_joining) or group.joining_count < size_max:
                return
        elif member is not None or len(group) < size_max:
            return
        if member is not None:
            self._rebalances.expel(group, member)
            self._rebalances.maybe_complete_join(group, now)
        pending = group.pending_joins.pop(member_id, None)
        if pending is not None:
            pending.cancel()
            self._rebalances.maybe_complete_join(group, now)
        raise ApiError(ErrorCode.group_max_size_reached)

    def _rejoin(self, group: Group, request: JoinGroup, ticket: object, now: Now) -> None:
        """The client comes with an id."""
        if request.member_id in group.pending_joins:
            if request.group_instance_id is not None:  # ids are given out to dynamic members only
                raise ApiError(ErrorCode.unknown_member_id)
            self._add(group, request.member_id, request, ticket, now)
            return
        member = group.require_member(request.member_id, request.group_instance_id)
        protocols = unique(request.protocols)
        is_same = protocols == member.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and is_same:
            # it may not have got the answer to its first JoinGroup
            self._state.outbox.answer(ticket, self._rebalances.generation(group, member))
        elif group.state is GroupState.STABLE and is_same and not group.is_leader(member):
            self._state.outbox.answer(ticket, self._rebalances.generation(group, member))
        else:
            # a leader that joins a stable group wants a rebalance: what it assigns by may have changed
            self._rebalances.answer_join(group, member, _asked_again(member))
            group.update(member, protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
            group.set_join_ticket(member, ticket)
            self._rebalances.rebalance(group, now)

    def _add(self, group: Group, member_id: str, request: JoinGroup, ticket: object, now: Now) -> None:
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=unique(request.protocols),
            is_new=True,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.has_new_member = True
        group.add(member, request.protocol_type, ticket)
        self._rebalances.sessions.begin(group, member, now)
        self._rebalances.rebalance(group, now)

    def _on_group_settled(self, group: Group, error: ErrorCode | None, now: Now) -> None:
        if error is None:
            self._state.directory.commit(group)
        elif self._state.directory.find_committed(group.group_id) is not group:  # else offsets have made it good
            self._rebalances.kill(group, error, now.wall_ms)

    def _on_group_outcome(self, group: Group, ticket: object, error: ErrorCode | None, _now: Now) -> None:
        """The client that brought the group about is not left waiting for it."""
        if error is not None:
            for member in group:
                if member.join_ticket is ticket:
                    self._rebalances.answer_join(group, member, JoinResult(error=error))

    def _refuse(self, ticket: object, error: ErrorCode, member_id: str) -> None:
        self._state.outbox.answer(ticket, JoinResult(error=error, member_id=member_id))


_MEMBER_ID_SUFFIX_SIZE = 37
"""Bytes that a client's name is longer by when it is a member's id."""


def _is_writable(text: str, more: int = 0) -> bool:
    """True if records can hold the text, made longer by so many bytes."""
    return len(text) + more <= STRING_BYTES_MAX and len(text.encode()) + more <= STRING_BYTES_MAX


def _name(request: JoinGroup) -> str:
    return request.client_id if request.group_instance_id is None else request.group_instance_id


def _asked_again(member: Member) -> JoinResult:
    """The answer to a JoinGroup whose client has sent another one; the client asks once more, if it still listens."""
    return JoinResult(error=ErrorCode.rebalance_in_progress, member_id=member.member_id)
