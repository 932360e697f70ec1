"""Members of the classic protocol in consumer groups, while a group moves from one protocol to the other, member by member.

Their requests mean here what they mean in a classic group, but no member waits for others: JoinGroup is answered at once with the member's
epoch as the generation and without a list for a leader, SyncGroup with what the coordinator has assigned, and a heartbeat tells the member
to join again whenever it has a step to take towards its target.
"""

from functools import partial
from typing import Final

from esp.groups.consumer.assigning import Assigning
from esp.groups.consumer.conversion import classic_assignment, owned_of
from esp.groups.consumer.departures import Departures
from esp.groups.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from esp.groups.consumer.operation import Operation
from esp.groups.consumer.progress import Progress
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.embedded_protocol import Subscription, read_subscription
from esp.groups.group import PROTOCOL_TYPE, unique
from esp.groups.rebalances import Rebalances
from esp.groups.requests import JOIN_EPOCH, Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from esp.groups.responses import JoinResult, LeaveResult, LeftMember, SyncResult
from esp.groups.settings import MigrationPolicy
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import uuid_to_base64
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerGroupRecordType,
    MemberState,
    MemberValue,
    TargetValue,
)

_Type: Final = ConsumerGroupRecordType


class ClassicMembers:
    """Decides on JoinGroup, SyncGroup, Heartbeat and LeaveGroup for consumer groups with members.

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
        self._progress = progress
        self._departures = departures
        self._assigning = assigning

    def has(self, group_id: str) -> bool:
        """True if requests of the classic protocol to this group are decided here: it is a consumer group, and not empty."""
        group = self._state.consumers.find(group_id)
        return group is not None and len(group) > 0

    def _is_there(self, group_id: str, member_id: str) -> bool:
        """True if the group has the member still, now that what was decided for it is committed: else no time runs for it."""
        group = self._state.consumers.find(group_id)
        return group is not None and group.find(member_id) is not None

    # JoinGroup.

    def join(self, request: JoinGroup, ticket: object, now: Now) -> None:
        """Answer when all that follows from it is committed; what no group could take is refused before."""
        operation = Operation(self._state, self._rebalances, request.group_id)
        try:
            result = self._join(operation, request, now)
        except ApiError as refusal:
            operation.undo()
            self._state.outbox.answer(ticket, JoinResult(error=refusal.code, member_id=request.member_id))
            return
        if result.error is ErrorCode.member_id_required:
            self._state.outbox.answer(ticket, result)
            return
        is_downgrade = operation.has_become_classic

        def outcome(error: ErrorCode | None, now: Now) -> None:
            if error is not None:
                self._state.outbox.answer(ticket, JoinResult(error=error, member_id=request.member_id))
                return
            if not is_downgrade and self._is_there(request.group_id, result.member_id):
                self._departures.on_joined(request.group_id, result.member_id, request.rebalance_timeout_ms, now)
            self._state.outbox.answer(ticket, result)

        operation.finish(now, outcome, partial(self._departures.on_undone, request.group_id))

    def _join(self, operation: Operation, request: JoinGroup, now: Now) -> JoinResult:
        group = operation.group
        settings = self._state.settings
        is_member = group.find(request.member_id) is not None
        if len(group) >= settings.consumer_max_size and not is_member:
            raise ApiError(ErrorCode.group_max_size_reached)
        if settings.consumer_migration_policy is MigrationPolicy.DISABLED and not is_member:
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if not group.supports(request.protocol_type, request.protocols):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        member_id = request.member_id or uuid_to_base64(self._state.random.uuid())
        if not request.member_id and request.requires_known_member_id and request.group_instance_id is None:
            return JoinResult(error=ErrorCode.member_id_required, member_id=member_id)
        try:
            subscription = read_subscription(request.protocols[0].metadata)
        except CorruptionError as error:
            raise ApiError(ErrorCode.unknown_server_error) from error

        static = None if request.group_instance_id is None else group.find_static(request.group_instance_id)
        is_downgrade = self._departures.may_downgrade(group, static)
        before = self._enter(operation, request, member_id, static)
        about = _update(None if before is None else before.about, request, subscription)
        topics_before = frozenset[str]() if before is None else operation.group.topics_of(before.about)
        operation.put(_Type.MEMBER, about, member_id)
        regex_before = None if before is None else before.about.topic_regex
        self._progress.resolve(operation, regex_before, about, _may_describe, now)
        has_changed = operation.group.topics_of(about) != topics_before
        self._progress.refresh(operation, has_changed=has_changed)
        if not is_downgrade:
            self._assigning.assign_if_due(operation, now)
        was = NOTHING if before is None else before.current
        owned = owned_of(subscription, self._state.topics)
        current = was
        if not (is_downgrade and has_changed):  # else it joins again, with the others
            current = self._progress.advance(operation, member_id, was, owned, has_changed=has_changed)
        operation.put(_Type.CURRENT, current, member_id)
        if is_downgrade:
            self._departures.downgrade(operation, (), now, needs_rebalance=has_changed)
        else:
            self._departures.restart_session(operation.group, member_id, now)
            self._departures.watch_revocation(operation.group, member_id, was, current, now)
        return JoinResult(
            member_id=member_id,
            generation_id=current.epoch,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=request.protocols[0].name,
        )

    def _enter(
        self, operation: Operation, request: JoinGroup, member_id: str, static: ConsumerMember | None
    ) -> ConsumerMember | None:
        """The member as it was, None if it is new; one that takes the place of a static member has what that had.

        Raises:
            ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if request.group_instance_id is None:
            return operation.group.find(member_id)
        if request.member_id:
            if static is None:
                raise ApiError(ErrorCode.unknown_member_id)
            if static.member_id != member_id:
                raise ApiError(ErrorCode.fenced_instance_id)
        if static is None or static.member_id == member_id:
            return static
        target = operation.group.target_of(static.member_id)
        self._departures.remove(operation, static.member_id)
        current = static.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        operation.put(_Type.MEMBER, static.about, member_id)
        operation.put(_Type.TARGET, TargetValue(target), member_id)
        operation.put(_Type.CURRENT, current, member_id)
        return ConsumerMember(member_id, static.about, current)

    # SyncGroup.

    def sync(self, request: SyncGroup, ticket: object, now: Now) -> None:
        """Answer with the member's partitions when all that they rest on is committed."""
        group = self._state.consumers.find(request.group_id)
        assert group is not None
        try:
            member = _require_member(group, request.member_id, request.group_instance_id, request.generation_id)
            self._require_synced(group, member, request, now)
        except ApiError as refusal:
            self._state.outbox.answer(ticket, SyncResult(error=refusal.code))
            return
        result = SyncResult(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=classic_assignment(member, frozenset(member.current.assigned), group, self._state.topics),
        )

        def outcome(error: ErrorCode | None, now: Now) -> None:
            if error is None and self._is_there(group.group_id, member.member_id):
                self._departures.on_synced(group.group_id, member.member_id)
                self._departures.restart_session(group, member.member_id, now)
            self._state.outbox.answer(ticket, result if error is None else SyncResult(error=error))

        self._state.appends.after_all(outcome, now)

    def _require_synced(self, group: ConsumerGroup, member: ConsumerMember, request: SyncGroup, now: Now) -> None:
        """The request is about what JoinGroup was answered with, and no member is to join again since.

        Raises:
            ApiError: INCONSISTENT_GROUP_PROTOCOL, REBALANCE_IN_PROGRESS.
        """
        assert member.about.classic is not None
        name = member.about.classic.protocols[0].name
        if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if _is_behind(group, member) and member.current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._departures.expect_join(group, member, now)
            raise ApiError(ErrorCode.rebalance_in_progress)

    # Heartbeat.

    def heartbeat(self, request: Heartbeat, now: Now) -> ErrorCode:
        """Return the error for the member: REBALANCE_IN_PROGRESS if it has a step to take, for which it is to join again."""
        group = self._state.consumers.find(request.group_id)
        assert group is not None
        try:
            member = _require_member(group, request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as refusal:
            return refusal.code
        self._departures.restart_session(group, member.member_id, now)
        current = member.current
        if (
            _is_behind(group, member)
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
        ):
            self._departures.expect_join(group, member, now)
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    # LeaveGroup.

    def leave(self, request: LeaveGroup, ticket: object, now: Now) -> None:
        """Take members out, whatever protocol they speak; answer when that is committed."""
        operation = Operation(self._state, self._rebalances, request.group_id)
        left: list[LeftMember] = []
        gone: dict[str, ConsumerMember] = {}
        for leaving in request.members:
            try:
                member = _find_leaving(operation.group, leaving)
                gone[member.member_id] = member
                error = ErrorCode.none
            except ApiError as refusal:
                error = refusal.code
            left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
        if gone:
            self._departures.expel(operation, tuple(gone.values()), now)

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            result = LeaveResult(members=tuple(left)) if error is None else LeaveResult(error=error)
            self._state.outbox.answer(ticket, result)

        operation.finish(now, outcome, partial(self._departures.on_undone, request.group_id))


def _require_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMember:
    """The member of the classic protocol that a request names, and its epoch.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    member = group.find(member_id) if instance_id is None else group.find_static(instance_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if member.member_id != member_id:
        raise ApiError(ErrorCode.fenced_instance_id)
    if member.about.classic is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if generation_id != member.current.epoch:
        raise ApiError(ErrorCode.illegal_generation)
    return member


def _find_leaving(group: ConsumerGroup, leaving: LeavingMember) -> ConsumerMember:
    """The member that is to go; an administrator names the instance alone (KIP-345).

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    instance_id = leaving.group_instance_id
    member = group.find(leaving.member_id) if instance_id is None else group.find_static(instance_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if instance_id is not None and leaving.member_id not in ("", member.member_id):
        raise ApiError(ErrorCode.fenced_instance_id)
    return member


def _is_behind(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if there is a newer assignment, or none will be computed unless the member joins again: a heartbeat of a consumer does that."""
    return member.current.epoch < (group.assignment_epoch if group.has_consumers else group.epoch)


def _waits_for_others(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """True if another member has a partition of its target still."""
    return any(
        group.owner_of(partition) not in (None, member.member_id)
        for partition in group.target_of(member.member_id)
        if partition not in member.current.assigned
    )


def _update(before: MemberValue | None, request: JoinGroup, subscription: Subscription) -> MemberValue:
    """The member as it tells of itself now; it has no expression."""
    protocols = unique(request.protocols)
    return MemberValue(
        instance_id=request.group_instance_id,
        rack_id=subscription.rack_id or (None if before is None else before.rack_id),
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        assignor=None if before is None else before.assignor,
        classic=ClassicMemberValue(
            request.session_timeout_ms, tuple(ClassicProtocol(name, metadata) for name, metadata in protocols)
        ),
    )


def _may_describe(_topic: str) -> bool:
    """Members of the classic protocol have no expression, so none is looked up for them."""
    return True
