"""ConsumerGroupHeartbeat: members of consumer groups join, show that they live, and leave; what follows for their group (KIP-848).

A heartbeat is decided in these steps, in one operation: the member is found, or made; what it tells of itself is taken in; the group epoch
rises if that, or a change of the topics, asks for another assignment; the assignment is computed if it is due; and the member goes a step
towards its target. The answer is given when all of that is committed.
"""

import logging
from collections.abc import Collection
from typing import Final

from esp.groups.consumer.assignment import assign
from esp.groups.consumer.group import NOTHING, ConsumerGroup, ConsumerMember
from esp.groups.consumer.membership import find_member, require_valid
from esp.groups.consumer.operation import Operation
from esp.groups.consumer.reconciliation import Goal, reconcile
from esp.groups.consumer.sessions import MemberTimers
from esp.groups.consumer.timing import Timing, timing_of
from esp.groups.consumer.topics import hash_topics, resolve
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import GroupState
from esp.groups.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED_TIMEOUT,
    ConsumerGroupHeartbeat,
)
from esp.groups.responses import ConsumerGroupHeartbeatResult
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import uuid_to_base64
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    NO_ASSIGNMENT_TIME_MS,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    RegexValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)

_logger = logging.getLogger(__name__)

_Type = ConsumerGroupRecordType
_RETRY_MS: Final = 1_000
"""The time after which a member that could not be fenced, as the log took nothing, is looked at again."""


class Heartbeats:
    """Decides on ConsumerGroupHeartbeat, and fences members that are silent, or do not give partitions back in time.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._groups = state.consumers
        self._catalog = state.topics
        self._sessions = MemberTimers(state.deadlines, self._on_silent)
        self._revocations = MemberTimers(state.deadlines, self._on_not_revoked)
        self._seen: dict[str, int] = {}
        """The version of the catalog with which a group's topics were last looked at."""
        self._resolved: dict[tuple[str, str], int] = {}
        """The version of the catalog with which a group's regular expression was last resolved."""

    def begin(self, now: Now) -> None:
        """All records are replayed: members have their full time from now on."""
        for group in self._groups.newest():
            for member in group:
                self._restart_session(group, member.member_id, now)
                if member.current.state is MemberState.UNREVOKED_PARTITIONS:
                    self._revocations.restart(group.group_id, member.member_id, member.about.rebalance_timeout_ms, now)

    def heartbeat(self, request: ConsumerGroupHeartbeat, ticket: object, now: Now) -> None:
        """Answer when all that follows from it is committed."""
        operation = Operation(self._state, request.group_id)
        try:
            require_valid(request, self._state.settings)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                result = self._leave(operation, request)
            else:
                result = self._beat(operation, request, now)
        except ApiError as refusal:
            operation.undo()
            refused = ConsumerGroupHeartbeatResult(error=refusal.code, error_message=refusal.message)
            self._state.outbox.answer(ticket, refused)
            return

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            answer = result
            if error is not None:
                answer = ConsumerGroupHeartbeatResult(error=error)
                self._look_again(request.group_id)
            self._state.outbox.answer(ticket, answer)

        operation.finish(now, outcome)

    def _beat(self, operation: Operation, request: ConsumerGroupHeartbeat, now: Now) -> ConsumerGroupHeartbeatResult:
        """A member joins, or goes on. Raises ApiError."""
        self._require_group(operation, request)
        member_id = request.member_id or uuid_to_base64(self._state.random.uuid())
        before = self._enter(operation, request, member_id)
        about = _update(None if before is None else before.about, request)
        topics_before = frozenset[str]() if before is None else operation.group.topics_of(before.about)
        operation.put(_Type.MEMBER, about, member_id)
        self._resolve(operation, request, None if before is None else before.about.topic_regex, about, now)
        topics = operation.group.topics_of(about)
        has_changed = topics != topics_before
        self._refresh(operation, has_changed=has_changed)
        self._assign_if_due(operation, now)
        was = NOTHING if before is None else before.current
        current = self._reconcile(operation, member_id, was, request.owned, has_changed=has_changed)
        operation.put(_Type.CURRENT, current, member_id)
        self._restart_session(operation.group, member_id, now)
        if current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._revocations.cancel(request.group_id, member_id)
        elif current != was or not self._revocations.is_running(request.group_id, member_id):
            self._revocations.restart(request.group_id, member_id, about.rebalance_timeout_ms, now)
        is_told = (
            request.member_epoch == JOIN_EPOCH or current.assigned.keys() != was.assigned.keys() or _is_full(request)
        )
        return ConsumerGroupHeartbeatResult(
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._timing(request.group_id).heartbeat_interval_ms,
            assignment=frozenset(current.assigned) if is_told else None,
        )

    def _require_group(self, operation: Operation, request: ConsumerGroupHeartbeat) -> None:
        """The group is a consumer group, or comes about by the member that joins; an empty group of the classic protocol gives way.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND.
        """
        if self._groups.find(request.group_id) is not None:
            return
        classic = self._state.directory.find(request.group_id)
        if classic is not None and (classic.state is not GroupState.EMPTY or classic.pending_joins):
            raise ApiError(ErrorCode.group_id_not_found, f"Group {request.group_id} is not a consumer group.")
        if request.member_epoch != JOIN_EPOCH:
            raise ApiError(ErrorCode.group_id_not_found, f"Consumer group {request.group_id} not found.")
        if classic is not None:
            operation.replace(classic)

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
        self._remove(operation, found.member_id)
        current = found.current._replace(epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        operation.put(_Type.MEMBER, found.about, member_id)
        operation.put(_Type.TARGET, TargetValue(target), member_id)
        operation.put(_Type.CURRENT, current, member_id)
        return ConsumerMember(member_id, found.about, current)

    def _resolve(
        self,
        operation: Operation,
        request: ConsumerGroupHeartbeat,
        regex_before: str | None,
        about: MemberValue,
        now: Now,
    ) -> None:
        """Look up the topics that the member's expression matches, if it is new or there are other topics. Raises ApiError."""
        group = operation.group
        if regex_before is not None and regex_before != about.topic_regex:
            self._forget_unused(operation, regex_before)
        regex = about.topic_regex
        if regex is None:
            return
        known = group.regexes.get(regex)
        key = group.group_id, regex
        if known is not None and self._resolved.get(key) == self._catalog.version:
            return
        topics = resolve(regex, self._catalog, request.may_describe)
        self._resolved[key] = self._catalog.version
        if known is None or known.topics != topics:
            operation.put(_Type.REGEX, RegexValue(topics, self._catalog.offset, now.wall_ms), regex)

    def _forget_unused(self, operation: Operation, regex: str) -> None:
        """Forget an expression that no member uses any more."""
        if not operation.group.regex_count(regex):
            operation.put(_Type.REGEX, None, regex)
            self._resolved.pop((operation.group.group_id, regex), None)

    def _refresh(self, operation: Operation, *, has_changed: bool) -> None:
        """Raise the group epoch if a member's topics have changed, or the topics themselves."""
        group = operation.group
        version = self._catalog.version
        if not has_changed and self._seen.get(group.group_id) == version:
            return
        self._seen[group.group_id] = version
        metadata_hash = hash_topics(self._catalog, group.topic_names)
        if has_changed or metadata_hash != group.metadata_hash:
            operation.put(_Type.GROUP_EPOCH, GroupEpochValue(group.epoch + 1, metadata_hash))

    def _assign_if_due(self, operation: Operation, now: Now) -> None:
        """Compute the assignment of the group epoch, unless the last one is too young."""
        group = operation.group
        if group.epoch == group.assignment_epoch:
            return
        age_ms = now.wall_ms - group.assigned_ms
        if (
            group.assigned_ms != NO_ASSIGNMENT_TIME_MS
            and 0 <= age_ms < self._timing(group.group_id).assignment_interval_ms
        ):
            return
        for member_id, partitions in assign(group, self._catalog, self._state.settings.consumer_assignors).items():
            operation.put(_Type.TARGET, TargetValue(partitions), member_id)
        operation.put(_Type.TARGET_EPOCH, TargetEpochValue(group.epoch, now.wall_ms))

    def _reconcile(
        self,
        operation: Operation,
        member_id: str,
        current: CurrentValue,
        owned: Collection[TopicIdPartition] | None,
        *,
        has_changed: bool,
    ) -> CurrentValue:
        group = operation.group
        if current.state is MemberState.STABLE and current.epoch == group.assignment_epoch and not has_changed:
            return current
        member = group.find(member_id)
        assert member is not None
        topic_ids = {
            known.topic.topic_id
            for name in group.topics_of(member.about)
            if (known := self._catalog.find(name)) is not None
        }
        goal = Goal(
            group.assignment_epoch,
            frozenset(one for one in group.target_of(member_id) if one.topic_id in topic_ids),
            has_changed,
            lambda partition: partition.topic_id in topic_ids,
        )
        return reconcile(current, goal, owned, lambda partition: group.owner_of(partition) in (None, member_id))

    # The end of members.

    def _leave(self, operation: Operation, request: ConsumerGroupHeartbeat) -> ConsumerGroupHeartbeatResult:
        """A member leaves, for good or for a while; its epoch is not looked at. Raises ApiError."""
        group = self._groups.find(request.group_id)
        if group is None:
            raise ApiError(ErrorCode.group_id_not_found, f"Group {request.group_id} not found.")
        member = find_member(group, request)
        assert member is not None, "a member that does not join is found, or refused"
        if request.member_epoch == LEAVE_STATIC_EPOCH:
            current = member.current
            away = CurrentValue(
                LEAVE_STATIC_EPOCH, current.epoch, MemberState.STABLE, current.assigned, NOTHING.pending_revocation
            )
            operation.put(_Type.CURRENT, away, member.member_id)
            self._revocations.cancel(group.group_id, member.member_id)
        else:
            self._expel(operation, member.member_id)
            self._sessions.cancel(group.group_id, member.member_id)
            self._revocations.cancel(group.group_id, member.member_id)
        return ConsumerGroupHeartbeatResult(member_id=request.member_id, member_epoch=request.member_epoch)

    def _remove(self, operation: Operation, member_id: str) -> None:
        """Forget a member, and what it has."""
        member = operation.group.find(member_id)
        assert member is not None
        for type_ in (_Type.CURRENT, _Type.TARGET, _Type.MEMBER):
            operation.put(type_, None, member_id)

    def _expel(self, operation: Operation, member_id: str) -> None:
        """Take a member out: the others get its partitions with the next assignment."""
        member = operation.group.find(member_id)
        assert member is not None
        self._remove(operation, member_id)
        group = operation.group
        regex = member.about.topic_regex
        if regex is not None:
            self._forget_unused(operation, regex)
        epoch = group.epoch + 1
        operation.put(_Type.GROUP_EPOCH, GroupEpochValue(epoch, hash_topics(self._catalog, group.topic_names)))
        if not len(group):
            operation.put(_Type.TARGET_EPOCH, TargetEpochValue(epoch, group.assigned_ms))
            self._seen.pop(group.group_id, None)

    def _on_silent(self, group_id: str, member_id: str, now: Now) -> None:
        group = self._groups.find(group_id)
        if group is not None and group.find(member_id) is not None:
            _logger.info("group %s: member %s is fenced: it was silent for too long", group_id, member_id)
            self._fence(group_id, member_id, now)

    def _on_not_revoked(self, group_id: str, member_id: str, now: Now) -> None:
        group = self._groups.find(group_id)
        member = None if group is None else group.find(member_id)
        if member is not None and member.current.state is MemberState.UNREVOKED_PARTITIONS:
            _logger.info(
                "group %s: member %s is fenced: it has not given its partitions back within %d ms",
                group_id,
                member_id,
                member.about.rebalance_timeout_ms,
            )
            self._fence(group_id, member_id, now)

    def _fence(self, group_id: str, member_id: str, now: Now) -> None:
        operation = Operation(self._state, group_id)
        self._expel(operation, member_id)
        self._revocations.cancel(group_id, member_id)
        self._sessions.cancel(group_id, member_id)

        def outcome(error: ErrorCode | None, now: Now) -> None:
            group = self._groups.find(group_id)
            if error is not None and group is not None and group.find(member_id) is not None:
                self._sessions.restart(group_id, member_id, _RETRY_MS, now)

        operation.finish(now, outcome)

    def _timing(self, group_id: str) -> Timing:
        return timing_of(group_id, self._catalog, self._state.settings)

    def _look_again(self, group_id: str) -> None:
        """An operation is undone: what it has seen of the topics, no record of the group says."""
        self._seen.pop(group_id, None)
        for key in [key for key in self._resolved if key[0] == group_id]:
            del self._resolved[key]

    def _restart_session(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        timeout_ms = self._timing(group.group_id).session_timeout_ms
        self._sessions.restart(group.group_id, member_id, timeout_ms, now)


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
    )


def _is_full(request: ConsumerGroupHeartbeat) -> bool:
    """True if the request tells everything, as after an answer that was lost."""
    return (
        request.rebalance_timeout_ms != UNCHANGED_TIMEOUT
        and (request.topic_names is not None or request.topic_regex is not None)
        and request.owned is not None
    )
