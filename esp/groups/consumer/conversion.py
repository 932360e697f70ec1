"""Groups that move between the protocols with their members: what a group of the one is in the other one.

The generation of the classic group is the epoch of the other, in both directions, except that no epoch is 0. A member keeps its
id, and what it has.
"""

from collections.abc import Collection, Iterable, Mapping

from esp.groups.assigned_group import FIRST_EPOCH
from esp.groups.consumer.group import ConsumerGroup, ConsumerMember
from esp.groups.consumer.topics import TopicCatalog, hash_topics
from esp.groups.embedded_protocol import Subscription, read_assignment, read_subscription, write_assignment
from esp.groups.group import PROTOCOL_TYPE, Group, GroupState, Member
from esp.groups.requests import Protocol
from esp.groups.settings import GroupSettings
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.consumer_group_records import (
    ClassicMemberValue,
    ClassicProtocol,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
    Value,
)

_Type = ConsumerGroupRecordType


def require_upgradable(group: Group, settings: GroupSettings) -> None:
    """A classic group with members may become one of the consumer protocol.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND, as Kafka says it.
    """
    problem = None
    if not settings.consumer_migration_policy.allows_upgrade:
        problem = "online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        problem = "the group does not use the consumer embedded protocol"
    elif len(group) > settings.consumer_max_size:
        problem = "the group size exceeds the consumer group maximum size"
    if problem is not None:
        raise _not_upgradable(group, problem)


def upgraded(group: Group, catalog: TopicCatalog) -> list[ConsumerGroupRecord]:
    """The records of a classic group that becomes one of the consumer protocol, in Kafka's order.

    Args:
        group: has members.
        catalog: the topics that there are.

    Raises:
        ApiError: GROUP_ID_NOT_FOUND: what the members tell one another is not to be read, or would be lost.
    """
    abouts: dict[str, MemberValue] = {}
    assigned: dict[str, frozenset[TopicIdPartition]] = {}
    claimed: dict[str, frozenset[TopicIdPartition]] = {}
    for member in group:
        try:
            subscription = read_subscription(member.protocols[0].metadata)
            assignment = read_assignment(member.assignment)
        except CorruptionError as error:
            raise _not_upgradable(group, "the embedded consumer protocol is malformed") from error
        if assignment.has_user_data:
            raise _not_upgradable(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        abouts[member.member_id] = _about(member, subscription)
        assigned[member.member_id] = _identify(assignment.partitions, catalog)
        claimed[member.member_id] = _identify(subscription.owned, catalog)
    epoch = max(group.generation_id, FIRST_EPOCH)  # no member may be told epoch 0: it would be one that joins
    names = {name for about in abouts.values() for name in about.topic_names}

    def record(type_: ConsumerGroupRecordType, value: Value, name: str = "") -> ConsumerGroupRecord:
        return ConsumerGroupRecord(ConsumerGroupKey(type_, group.group_id, name), value)

    return [
        *(record(_Type.MEMBER, about, member_id) for member_id, about in abouts.items()),
        record(_Type.GROUP_EPOCH, GroupEpochValue(epoch, hash_topics(catalog, names))),
        *(record(_Type.TARGET, TargetValue(partitions), member_id) for member_id, partitions in assigned.items()),
        record(_Type.TARGET_EPOCH, TargetEpochValue(epoch)),
        *(
            record(_Type.CURRENT, current, member_id)
            for member_id, current in _places(epoch, assigned, claimed).items()
        ),
    ]


def _places(
    epoch: int,
    assigned: Mapping[str, frozenset[TopicIdPartition]],
    claimed: Mapping[str, frozenset[TopicIdPartition]],
) -> dict[str, CurrentValue]:
    """The place of each member: it has what is assigned to it, and gives back what it had when it joined last, unless another one has that.

    A cooperative member uses its partitions until it is told of a smaller assignment, and says that they are free by joining again.
    """
    taken = set[TopicIdPartition]().union(*assigned.values())
    places: dict[str, CurrentValue] = {}
    for member_id, partitions in assigned.items():
        returned = claimed[member_id] - taken
        taken |= returned
        state = MemberState.UNREVOKED_PARTITIONS if returned else MemberState.STABLE
        places[member_id] = CurrentValue(
            epoch, epoch, state, dict.fromkeys(partitions, epoch), dict.fromkeys(returned, epoch)
        )
    return places


def downgraded(group: ConsumerGroup, gone: Collection[str], catalog: TopicCatalog, wall_ms: int) -> Group:
    """The classic group that a group of the consumer protocol becomes: stable, and each member has what it has.

    That is its target if it is there already; a target is never an assignment here before the member that has it still gives it back.

    Args:
        group: has no members of the consumer protocol besides those that are gone.
        gone: the ids of members that go.
        catalog: the topics that there are.
        wall_ms: the time.
    """
    classic = Group(group.group_id, wall_ms)
    for one in group:
        if one.member_id in gone:
            continue
        assert one.about.classic is not None, "members of the consumer protocol are gone"
        member = Member(
            member_id=one.member_id,
            group_instance_id=one.about.instance_id,
            client_id=one.about.client_id,
            client_host=one.about.client_host,
            rebalance_timeout_ms=one.about.rebalance_timeout_ms,
            session_timeout_ms=one.about.classic.session_timeout_ms,
            protocols=tuple(Protocol(name, metadata) for name, metadata in one.about.classic.protocols),
        )
        classic.add(member, PROTOCOL_TYPE)
        held = frozenset((*one.current.assigned, *one.current.pending_revocation))
        member.assignment = classic_assignment(one, held, group, catalog)
    classic.state = classic.previous_state = GroupState.STABLE
    classic.generation_id = group.epoch
    classic.protocol_name = classic.select_protocol()
    classic.read_subscriptions()
    return classic


def classic_assignment(
    member: ConsumerMember, partitions: frozenset[TopicIdPartition], group: ConsumerGroup, catalog: TopicCatalog
) -> bytes:
    """These partitions as an assignment for a member of the classic protocol; those of topics that are gone are left out."""
    assert member.about.classic is not None, "the member speaks the classic protocol"
    return write_assignment(_by_name(partitions, group, catalog), member.about.classic.protocols[0].metadata)


def owned_of(subscription: Subscription, catalog: TopicCatalog) -> frozenset[TopicIdPartition]:
    """The partitions that a member of the classic protocol says it has."""
    return _identify(subscription.owned, catalog)


def _identify(partitions: Iterable[TopicPartition], catalog: TopicCatalog) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(known.topic.topic_id, partition.partition)
        for partition in partitions
        if (known := catalog.find(partition.topic)) is not None
    )


def _by_name(
    partitions: frozenset[TopicIdPartition], group: ConsumerGroup, catalog: TopicCatalog
) -> Mapping[str, list[int]]:
    names = {known.topic.topic_id: name for name in group.topic_names if (known := catalog.find(name)) is not None}
    found: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        if topic_id in names:
            found.setdefault(names[topic_id], []).append(partition)
    return found


def _about(member: Member, subscription: Subscription) -> MemberValue:
    return MemberValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        topic_regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        assignor=None,
        classic=ClassicMemberValue(
            member.session_timeout_ms, tuple(ClassicProtocol(name, metadata) for name, metadata in member.protocols)
        ),
    )


def _not_upgradable(group: Group, problem: str) -> ApiError:
    return ApiError(
        ErrorCode.group_id_not_found,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {problem}.",
    )
