"""ConsumerGroupHeartbeat: members of consumer groups join, show that they live, and leave; what follows for their group (KIP-848).

A heartbeat is decided in these steps, in one operation: the member is found, or made; what it tells of itself is taken in; the group epoch
rises if that, or a change of the topics, asks for another assignment; the assignment is computed if it is due; and the member goes a step
towards its target. The answer is given when all of that is committed.
"""

from functools import partial
from typing import Final

from esp.groups.consumer.assigning import Assigning
from esp.groups.consumer.conversion import require_upgradable, upgraded
from esp.groups.consumer.departures import Departures
from esp.groups.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from esp.groups.consumer.membership import find_member, require_valid
from esp.groups.consumer.operation import Operation
from esp.groups.consumer.progress import Progress
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import GroupState
from esp.groups.rebalances import Rebalances
from esp.groups.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED_TIMEOUT,
    ConsumerGroupHeartbeat,
)
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.groups.timing import Timing, timing_of
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import uuid_to_base64
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    ConsumerGroupRecordType,
    CurrentValue,
    MemberState,
    MemberValue,
    TargetValue,
    TopicIdPartition,
)

_Type: Final = ConsumerGroupRecordType


class Heartbeats:
    """Decides on ConsumerGroupHeartbeat.

    Args:
        state: the coordinator's state.
        rebalances: moves groups of the classic protocol through their states.
        progress: takes members towards their targets.
        departures: takes members out, and holds their timers.
        assigning: computes assignments.
    """

    def __init__(
        self,
        state: CoordinatorState,
        rebalances: Rebalances,
        progress: Progress,
        departures: Departures,
        assigning: Assigning,
    ) -> None:
        self._state = state
        self._rebalances = rebalances
        self._groups = state.consumers
        self._progress = progress
        self._departures = departures
        self._assigning = assigning

    def heartbeat(self, request: ConsumerGroupHeartbeat, ticket: object, now: Now) -> None:
        """Answer when all that follows from it is committed."""
        operation = Operation(self._state, self._rebalances, request.group_id)
        try:
            require_valid(request, self._state.settings)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                result = self._leave(operation, request, now)
            else:
                result = self._beat(operation, request, now)
        except ApiError as refusal:
            operation.undo()
            refused = ConsumerGroupHeartbeatResult(error=refusal.code, error_message=refusal.message)
            self._state.outbox.answer(ticket, refused)
            return

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            answer = result if error is None else ConsumerGroupHeartbeatResult(error=error)
            self._state.outbox.answer(ticket, answer)

        operation.finish(now, outcome, partial(self._departures.on_undone, request.group_id))

    def beat_at_rest(self, request: ConsumerGroupHeartbeat, now: Now) -> ConsumerGroupHeartbeatResult | None:
        """Answer a member that has nothing to tell, and nothing to be told, and give it its full time: nearly all heartbeats are such.

        None: it is not known to be one, and nothing has been done; :meth:`heartbeat` decides, which answers those at rest the same.
        """
        group = self._groups.find(request.group_id)
        if group is None:
            return None
        instance_id = request.instance_id
        member = group.find(request.member_id) if instance_id is None else group.find_static(instance_id)
        if (
            member is None
            or not _tells_nothing(member, request)
            or not _is_stable(member, group, request.member_epoch)
            or not self._progress.is_up_to_date(group, member.about.topic_regex)
            or self._state.appends.has_unsettled(request.group_id)
        ):
            return None
        timing = self._timing_of(request)
        self._departures.put_off_session(request.group_id, request.member_id, timing.session_timeout_ms, now)
        return ConsumerGroupHeartbeatResult(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=timing.heartbeat_interval_ms,
        )

    def _beat(self, operation: Operation, request: ConsumerGroupHeartbeat, now: Now) -> ConsumerGroupHeartbeatResult:
        """A member joins, or goes on. Raises ApiError."""
        is_rebalancing = self._require_group(operation, request, now)
        member_id = request.member_id or uuid_to_base64(self._state.random.uuid())
        before = self._enter(operation, request, member_id)
        about = _update(None if before is None else before.about, request)
        topics_before = frozenset[str]() if before is None else operation.group.topics_of(before.about)
        operation.put(_Type.MEMBER, about, member_id)
        regex_before = None if before is None else before.about.topic_regex
        self._progress.resolve(operation, regex_before, about, request.may_describe, now)
        topics = operation.group.topics_of(about)
        has_changed = topics != topics_before
        self._progress.refresh(operation, has_changed=has_changed or is_rebalancing)
        self._assigning.assign_if_due(operation, now)
        was = NOTHING if before is None else before.current
        current = self._progress.advance(operation, member_id, was, request.owned, has_changed=has_changed)
        operation.put(_Type.CURRENT, current, member_id)
        self._departures.restart_session(operation.group, member_id, now)
        self._departures.watch_revocation(operation.group, member_id, was, current, now)
        if before is not None and before.about.classic is not None:
            self._departures.forget_classic(request.group_id, member_id)
        is_told = (
            request.member_epoch == JOIN_EPOCH or current.assigned.keys() != was.assigned.keys() or _is_full(request)
        )
        return self._result(
            request, member_id, current.epoch, assignment=frozenset(current.assigned) if is_told else None
        )

    def _result(
        self,
        request: ConsumerGroupHeartbeat,
        member_id: str,
        epoch: int,
        assignment: frozenset[TopicIdPartition] | None = None,
    ) -> ConsumerGroupHeartbeatResult:
        return ConsumerGroupHeartbeatResult(
            member_id=member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=self._timing_of(request).heartbeat_interval_ms,
            assignment=assignment,
        )

    def _timing_of(self, request: ConsumerGroupHeartbeat) -> Timing:
        return timing_of(request.group_id, self._state.topics, self._state.settings)

    def _require_group(self, operation: Operation, request: ConsumerGroupHeartbeat, now: Now) -> bool:
        """The group is a consumer group, or becomes one by the member that joins: of the classic protocol an empty group gives way, and
        another one moves with its members.

        Returns:
            True if it moves while it is in a rebalance: what its members have is not the assignment that they wait for, and a static member
            that joins in the place of its former self asks for none.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND.
        """
        if self._groups.find(request.group_id) is not None:
            return False
        classic = self._state.directory.find(request.group_id)
        is_joining = request.member_epoch == JOIN_EPOCH
        is_share = self._state.shares.find(request.group_id) is not None
        if not is_joining or is_share:
            is_known = classic is not None or is_share
            problem = "Group {} is not a consumer group." if is_known else "Consumer group {} not found."
            raise ApiError(ErrorCode.group_id_not_found, problem.format(request.group_id))
        if classic is None:
            return False
        if classic.state is GroupState.EMPTY:
            operation.replace(classic)
            return False
        require_upgradable(classic, self._state.settings)
        operation.replace(classic, upgraded(classic, self._state.topics))
        for member in operation.group:
            self._departures.restart_session(operation.group, member.member_id, now)
        return classic.state is not GroupState.STABLE

    def _enter(self, operation: Operation, request: ConsumerGroupHeartbeat, member_id: str) -> ConsumerMember | None:
        """The member as it was, None if it is new; one that takes the place of a static member has what that had.

        Raises:
            ApiError: it may not take part, or not in this epoch.
        """
        group = operation.group
        found = find_member(group, request)
        if found is None:
            if len(group) >= self._state.settings.consumer_max_size:
                raise ApiError(
                    ErrorCode.group_max_size_reached,
                    "The consumer group has reached its maximum capacity of "
                    f"{self._state.settings.consumer_max_size} members.",
                )
            return None
        if found.member_id == member_id:
            return found
        target = group.target_of(found.member_id)
        self._departures.remove(operation, found.member_id)
        current = found.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        operation.put(_Type.MEMBER, found.about, member_id)
        operation.put(_Type.TARGET, TargetValue(target), member_id)
        operation.put(_Type.CURRENT, current, member_id)
        return ConsumerMember(member_id, found.about, current)

    def _leave(self, operation: Operation, request: ConsumerGroupHeartbeat, now: Now) -> ConsumerGroupHeartbeatResult:
        """A member leaves, for good or for a while; its epoch is not looked at. Raises ApiError."""
        group = self._groups.find(request.group_id)
        if group is None:
            is_other = (
                self._state.directory.find(request.group_id) is not None
                or self._state.shares.find(request.group_id) is not None
            )
            problem = "Group {} is not a consumer group." if is_other else "Group {} not found."
            raise ApiError(ErrorCode.group_id_not_found, problem.format(request.group_id))
        member = find_member(group, request)
        assert member is not None, "a member that does not join is found, or refused"
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            current = member.current
            away = CurrentValue(
                LEAVE_STATIC_EPOCH, current.epoch, MemberState.STABLE, current.assigned, NOTHING.pending_revocation
            )
            operation.put(_Type.CURRENT, away, member.member_id)
            self._departures.stop_watching(group, member.member_id)
        else:
            self._departures.expel(operation, (member,), now)
        return ConsumerGroupHeartbeatResult(member_id=request.member_id, member_epoch=request.member_epoch)


def _update(before: MemberValue | None, request: ConsumerGroupHeartbeat) -> MemberValue:
    """The member as it tells of itself now."""
    names = request.topic_names
    regex = request.topic_regex
    about = before or MemberValue(None, None, "", "", (), None, UNCHANGED_TIMEOUT, None)
    return about._replace(
        instance_id=request.instance_id or about.instance_id,
        rack_id=request.rack_id or about.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=about.topic_names if names is None else tuple(sorted(set(names))),
        topic_regex=about.topic_regex if regex is None else regex or None,
        rebalance_timeout_ms=(
            about.rebalance_timeout_ms
            if request.rebalance_timeout_ms == UNCHANGED_TIMEOUT
            else request.rebalance_timeout_ms
        ),
        assignor=request.assignor or about.assignor,
        classic=None,
    )


def _tells_nothing(member: ConsumerMember, request: ConsumerGroupHeartbeat) -> bool:
    """True if the request is the member's, and says nothing of it that is not so already."""
    about = member.about
    return (
        member.member_id == request.member_id
        and request.topic_names is None
        and request.topic_regex is None
        and request.assignor is None
        and request.rack_id in (None, about.rack_id)
        and request.rebalance_timeout_ms in (UNCHANGED_TIMEOUT, about.rebalance_timeout_ms)
        and request.client_id == about.client_id
        and request.client_host == about.client_host
        and about.classic is None
    )


def _is_stable(member: ConsumerMember, group: ConsumerGroup, epoch: int) -> bool:
    """True if the member says that it is where the group is, and has all that it is to have."""
    current = member.current
    return current.state is MemberState.STABLE and JOIN_EPOCH < epoch == current.epoch == group.assignment_epoch


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    """True if the request tells everything, as after an answer that was lost."""
    return (
        request.rebalance_timeout_ms != UNCHANGED_TIMEOUT
        and (request.topic_names is not None or request.topic_regex is not None)
        and request.owned is not None
    )
