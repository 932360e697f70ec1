"""The right to send a heartbeat, to commit and to fetch offsets: the request itself, the member, and its epoch (KIP-848)."""

from collections.abc import Callable, Collection

from esp.groups.consumer.group import ConsumerGroup, ConsumerMember
from esp.groups.requests import (
    JOIN_EPOCH,
    LEAVE_STATIC_EPOCH,
    UNCHANGED_TIMEOUT,
    ConsumerGroupHeartbeat,
)
from esp.groups.settings import GroupSettings
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.group_record_codec import STRING_BYTES_MAX


def require_valid(request: ConsumerGroupHeartbeat, settings: GroupSettings) -> None:
    """Refuse what no member may send.

    Raises:
        ApiError: INVALID_REQUEST, UNSUPPORTED_ASSIGNOR.
    """
    problem = _find_problem(request)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_request, problem)
    if request.assignor is not None and request.assignor not in settings.consumer_assignors:
        raise ApiError(
            ErrorCode.unsupported_assignor,
            f"ServerAssignor {request.assignor} is not supported. "
            f"Supported assignors: {', '.join(settings.consumer_assignors)}.",
        )


def _find_problem(request: ConsumerGroupHeartbeat) -> str | None:
    if not request.group_id.strip():
        return "GroupId can't be empty."
    if not request.member_id.strip() and (request.makes_member_id or request.member_epoch != JOIN_EPOCH):
        return "MemberId can't be empty."
    if any(
        len(name.encode()) > STRING_BYTES_MAX
        for name in (request.group_id, request.member_id, request.topic_regex or "")
    ):
        return f"GroupId, MemberId and SubscribedTopicRegex have {STRING_BYTES_MAX} bytes at most."
    if request.instance_id is not None and not request.instance_id.strip():
        return "InstanceId can't be empty."
    if request.rack_id is not None and not request.rack_id.strip():
        return "RackId can't be empty."
    if request.member_epoch < LEAVE_STATIC_EPOCH:
        return "MemberEpoch is invalid."
    if request.member_epoch == LEAVE_STATIC_EPOCH and request.instance_id is None:
        return "InstanceId can't be null."
    if request.member_epoch != JOIN_EPOCH:
        return None
    if request.rebalance_timeout_ms == UNCHANGED_TIMEOUT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.owned is None or request.owned:
        return "TopicPartitions must be empty when (re-)joining."
    if request.topic_names is None and request.topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def require_commit(
    group: ConsumerGroup, member_id: str, epoch: int, *, is_transactional: bool, knows_epochs: bool
) -> Callable[[TopicIdPartition | None], bool]:
    """The right to commit offsets of a group (KIP-1251).

    Args:
        group: the group.
        member_id: the member that commits; empty for none.
        epoch: its member epoch, negative for none.
        is_transactional: whether the offsets belong to a transaction, whose producer need not name a member.
        knows_epochs: whether the request is of a version that has member epochs.

    Returns:
        Tells of a partition whether the member may commit: with an older epoch, if it has had the partition since that epoch or before.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION; STALE_MEMBER_EPOCH, for members of the classic protocol ILLEGAL_GENERATION.
    """
    if epoch < 0 and (not len(group) or (is_transactional and not member_id)):
        return lambda _partition: True
    member = group.find(member_id)
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    is_classic = member.about.classic is not None
    if not is_transactional and not knows_epochs and not is_classic:
        raise ApiError(ErrorCode.unsupported_version)
    current = member.current
    if epoch == current.epoch:
        return lambda _partition: True
    if is_classic:
        raise ApiError(ErrorCode.illegal_generation)
    if epoch > current.epoch:
        raise ApiError(ErrorCode.stale_member_epoch)

    def may_commit(partition: TopicIdPartition | None) -> bool:
        if partition is None:
            return False
        since = current.assigned.get(partition, current.pending_revocation.get(partition))
        return since is not None and epoch >= since

    return may_commit


def require_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> None:
    """The right to be told of a group's offsets: members name their epoch, others neither member nor epoch.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    if member_id is None and epoch < 0:
        return
    member = group.find(member_id or "")
    if member is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if epoch != member.current.epoch:
        raise ApiError(ErrorCode.stale_member_epoch)


def find_member(group: ConsumerGroup, request: ConsumerGroupHeartbeat) -> ConsumerMember | None:
    """The member whose heartbeat it is; None if a new member joins, and the former self of a static one that comes back under another id.

    Raises:
        ApiError: UNKNOWN_MEMBER_ID; FENCED_MEMBER_EPOCH; FENCED_INSTANCE_ID; UNRELEASED_INSTANCE_ID: a living member of the consumer
            protocol is the instance. One of the classic protocol gives way, as it would there.
    """
    is_joining = request.member_epoch == JOIN_EPOCH
    if request.instance_id is not None:
        member = group.find_static(request.instance_id)
        if member is not None and member.member_id != request.member_id:
            if not is_joining:
                raise ApiError(
                    ErrorCode.fenced_instance_id,
                    f"Static member {request.member_id} with instance id {request.instance_id} "
                    f"was fenced by member {member.member_id}.",
                )
            if member.about.classic is None and member.current.epoch != LEAVE_STATIC_EPOCH:
                raise ApiError(
                    ErrorCode.unreleased_instance_id,
                    f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group "
                    f"because the instance id is owned by {member.member_id} member.",
                )
            return member
    else:
        member = group.find(request.member_id)
    if member is None:
        if not is_joining:
            raise ApiError(
                ErrorCode.unknown_member_id,
                f"Instance id {request.instance_id} is unknown."
                if request.instance_id is not None
                else f"Member {request.member_id} is not a member of group {group.group_id}.",
            )
        return None
    if request.member_epoch > JOIN_EPOCH:
        _require_epoch(member, request.member_epoch, request.owned)
    return member


def _require_epoch(member: ConsumerMember, epoch: int, owned: Collection[TopicIdPartition] | None) -> None:
    """The epoch is the member's, or the one before: then the answer with the new one was lost, if the member has no more than it was told.

    Raises:
        ApiError: FENCED_MEMBER_EPOCH.
    """
    current = member.current
    if epoch == current.epoch:
        return
    if epoch > current.epoch:
        raise ApiError(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a greater member epoch ({epoch}) than the one known by the group "
            f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
        )
    if epoch != current.previous_epoch or owned is None or not all(one in current.assigned for one in owned):
        raise ApiError(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a smaller member epoch ({epoch}) than the one known by the group "
            f"coordinator ({current.epoch}). The member must abandon all its partitions and rejoin.",
        )
