"""ShareGroupHeartbeat: members of share groups join, show that they live, and leave; what follows for their group (KIP-932).

A heartbeat is decided in these steps, in one operation: the member is found, or made; what it tells of itself is taken in; the group epoch
rises if that, or a change of the topics, asks for another assignment; the assignment is computed if it is due; the member is told its
target; and partitions without a state are recorded as initialising. The answer is given when all of that is committed.
"""

from typing import Final

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.share.assigning import ShareAssigning
from esp.groups.share.departures import ShareDepartures
from esp.groups.share.group import NOTHING, ShareGroup, ShareMember
from esp.groups.share.initialisation import Attempt, Initialisation
from esp.groups.share.operation import ShareOperation
from esp.groups.share.progress import ShareProgress
from esp.groups.share.requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    MEMBER_ID_MAX,
    ShareGroupHeartbeat,
    ShareGroupHeartbeatResult,
)
from esp.groups.timing import Timing, share_timing_of
from esp.model.errors import ApiError, ErrorCode
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX
from esp.schemas.share_group_records import ShareGroupRecordType, ShareMemberValue

_Type: Final = ShareGroupRecordType


class ShareHeartbeats:
    """Decides on ShareGroupHeartbeat.

    Args:
        state: the coordinator's state.
        progress: takes members towards their targets.
        departures: takes members out, and holds their sessions.
        initialisation: asks for the states of partitions.
        assigning: computes assignments.
    """

    def __init__(
        self,
        state: CoordinatorState,
        progress: ShareProgress,
        departures: ShareDepartures,
        initialisation: Initialisation,
        assigning: ShareAssigning,
    ) -> None:
        self._state = state
        self._progress = progress
        self._departures = departures
        self._initialisation = initialisation
        self._assigning = assigning

    def heartbeat(self, request: ShareGroupHeartbeat, ticket: object, now: Now) -> None:
        """Answer when all that follows from it is committed."""
        operation = ShareOperation(self._state, request.group_id)
        attempt: Attempt | None = None
        try:
            _require_valid(request)
            if request.member_epoch == LEAVE_EPOCH:
                result = self._leave(operation, request)
            else:
                result, attempt = self._beat(operation, request, now)
        except ApiError as refusal:
            operation.undo()
            refused = ShareGroupHeartbeatResult(error=refusal.code, error_message=refusal.message)
            self._state.outbox.answer(ticket, refused)
            return

        state_epoch = operation.group.epoch

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            answer = result if error is None else ShareGroupHeartbeatResult(error=error)
            self._state.outbox.answer(ticket, answer)

        def undone(now: Now) -> None:
            if attempt is not None:
                self._initialisation.give_up(attempt)
            self._departures.on_undone(request.group_id, now)

        def committed(_now: Now) -> None:
            if attempt is not None:
                self._initialisation.begin(attempt, state_epoch)

        operation.finish(now, outcome, undone=undone, committed=committed)

    def beat_at_rest(self, request: ShareGroupHeartbeat, now: Now) -> ShareGroupHeartbeatResult | None:
        """Answer a member that has nothing to tell, and nothing to be told, and give it its full time; as with consumer groups."""
        group = self._state.shares.find(request.group_id)
        member = None if group is None else group.find(request.member_id)
        if (
            group is None
            or member is None
            or not _tells_nothing(member, request)
            or not JOIN_EPOCH < request.member_epoch == member.current.epoch == group.assignment_epoch
            or not self._progress.is_up_to_date(group)
            or not self._initialisation.is_complete(group)
            or self._state.appends.has_unsettled(request.group_id)
            or self._state.has_group_of_other_protocol(request.group_id)
        ):
            return None
        timing = self._timing_of(request)
        self._departures.put_off_session(request.group_id, request.member_id, timing.session_timeout_ms, now)
        return ShareGroupHeartbeatResult(
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            heartbeat_interval_ms=timing.heartbeat_interval_ms,
        )

    def _beat(
        self, operation: ShareOperation, request: ShareGroupHeartbeat, now: Now
    ) -> tuple[ShareGroupHeartbeatResult, Attempt | None]:
        """A member joins, or goes on. Raises ApiError."""
        before = self._enter(request)
        about = _update(None if before is None else before.about, request)
        has_changed = before is None or about.topic_names != before.about.topic_names
        operation.put(_Type.MEMBER, about, request.member_id)
        attempt = self._initialisation.find_due(operation.group, now)
        is_repeated = attempt is not None and attempt.is_repeated
        self._progress.refresh(operation, has_changed=has_changed or is_repeated)
        self._assigning.assign_if_due(operation, now)
        was = NOTHING if before is None else before.current
        current = self._progress.advance(operation, request.member_id, was, has_changed=has_changed)
        operation.put(_Type.CURRENT, current, request.member_id)
        if attempt is not None:
            self._initialisation.record(operation, attempt, now)
        self._departures.restart_session(operation.group, request.member_id, now)
        is_told = (
            request.member_epoch != was.epoch or request.topic_names is not None or current.assigned != was.assigned
        )
        return self._result(request, current.epoch, current.assigned if is_told else None), attempt

    def _result(
        self, request: ShareGroupHeartbeat, epoch: int, assignment: frozenset[TopicIdPartition] | None = None
    ) -> ShareGroupHeartbeatResult:
        return ShareGroupHeartbeatResult(
            member_id=request.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=self._timing_of(request).heartbeat_interval_ms,
            assignment=assignment,
        )

    def _timing_of(self, request: ShareGroupHeartbeat) -> Timing:
        return share_timing_of(request.group_id, self._state.topics, self._state.settings)

    def _enter(self, request: ShareGroupHeartbeat) -> ShareMember | None:
        """The member as it was, None if it is new.

        Raises:
            ApiError: it may not take part, or not in this epoch.
        """
        group = self._find_group(request)
        member = None if group is None else group.find(request.member_id)
        if request.member_epoch != JOIN_EPOCH:
            if group is None:
                raise ApiError(ErrorCode.group_id_not_found, f"Share group {request.group_id} not found.")
            _require_epoch(_require_member(group, member, request), request.member_epoch)
        elif member is None and group is not None and len(group) >= self._state.settings.share.max_size:
            raise ApiError(
                ErrorCode.group_max_size_reached,
                f"The share group has reached its maximum capacity of {self._state.settings.share.max_size} members.",
            )
        return member

    def _leave(self, operation: ShareOperation, request: ShareGroupHeartbeat) -> ShareGroupHeartbeatResult:
        """A member leaves; its epoch is not looked at. Raises ApiError."""
        group = self._find_group(request)
        if group is None:
            raise ApiError(ErrorCode.group_id_not_found, f"Group {request.group_id} not found.")
        _require_member(group, group.find(request.member_id), request)
        self._departures.expel(operation, request.member_id)
        return ShareGroupHeartbeatResult(member_id=request.member_id, member_epoch=LEAVE_EPOCH)

    def _find_group(self, request: ShareGroupHeartbeat) -> ShareGroup | None:
        """The group. No group of another protocol gives way to it.

        Raises:
            ApiError: GROUP_ID_NOT_FOUND: it is of another protocol.
        """
        if self._state.has_group_of_other_protocol(request.group_id):
            raise ApiError(ErrorCode.group_id_not_found, f"Group {request.group_id} is not a share group.")
        return self._state.shares.find(request.group_id)


def _require_valid(request: ShareGroupHeartbeat) -> None:
    """Refuse what no member may send.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    problem = _find_problem(request)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_request, problem)


def _find_problem(request: ShareGroupHeartbeat) -> str | None:
    if not request.member_id.strip():
        return "MemberId can't be empty."
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if len(request.member_id) > MEMBER_ID_MAX:
        return f"MemberId has {MEMBER_ID_MAX} characters at most."
    if len(request.group_id.encode()) > STRING_BYTES_MAX:
        return f"GroupId has {STRING_BYTES_MAX} bytes at most."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEAVE_EPOCH:
        return "MemberEpoch is invalid."
    if request.member_epoch == JOIN_EPOCH and not request.topic_names:
        return "SubscribedTopicNames must be set in first request."
    return None


def _require_member(group: ShareGroup, member: ShareMember | None, request: ShareGroupHeartbeat) -> ShareMember:
    """The member is known. Raises ApiError: UNKNOWN_MEMBER_ID."""
    if member is None:
        raise ApiError(
            ErrorCode.unknown_member_id, f"Member {request.member_id} is not a member of group {group.group_id}."
        )
    return member


def _require_epoch(member: ShareMember, epoch: int) -> None:
    """The epoch is the member's, or the one before: then the answer with the new one was lost.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    current = member.current
    if epoch not in (current.epoch, current.previous_epoch):
        relation, further = "greater", ""
        if epoch < current.epoch:
            relation = "smaller"
            further = f", and it does not match the previous member epoch ({current.previous_epoch})"
        raise ApiError(
            ErrorCode.fenced_member_epoch,
            f"The share group member has a {relation} member epoch ({epoch}) than the one known by the group "
            f"coordinator ({current.epoch}){further}. The member must abandon all its partitions and rejoin.",
        )


def _tells_nothing(member: ShareMember, request: ShareGroupHeartbeat) -> bool:
    """True if the request says nothing of the member that is not so already."""
    about = member.about
    return (
        request.topic_names is None
        and request.rack_id in (None, about.rack_id)
        and request.client_id == about.client_id
        and request.client_host == about.client_host
    )


def _update(before: ShareMemberValue | None, request: ShareGroupHeartbeat) -> ShareMemberValue:
    """The member as it tells of itself now."""
    about = before or ShareMemberValue(None, "", "", ())
    names = request.topic_names
    return ShareMemberValue(
        rack_id=request.rack_id or about.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        topic_names=about.topic_names if names is None else tuple(sorted(set(names))),
    )
