"""DescribeGroups, ConsumerGroupDescribe, ShareGroupDescribe and ListGroups, which show committed groups to administrators."""

from collections.abc import Iterator
from typing import Final

from esp.groups.consumer.assignment import preferred_assignor
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group import PROTOCOL_TYPE, GroupState
from esp.groups.requests import ListGroups
from esp.groups.responses import (
    DescribedConsumer,
    DescribedConsumerGroup,
    DescribedGroup,
    ListedGroup,
)
from esp.groups.share.requests import DescribedShareGroup, DescribedShareMember
from esp.model.errors import ErrorCode

CLASSIC_TYPE: Final = "classic"
"""Kafka's name for groups of the classic protocol, and of nothing but offsets."""

CONSUMER_TYPE: Final = "consumer"
"""Kafka's name for groups of KIP-848."""

SHARE_TYPE: Final = "share"
"""Kafka's name for groups of KIP-932, and of their protocol."""


def describe_group(state: CoordinatorState, group_id: str) -> DescribedGroup:
    """Describe a group of the classic protocol; the members' metadata only while it is stable."""
    group = state.directory.find_committed(group_id)
    if group is None:
        is_other = (
            state.consumers.find_committed(group_id) is not None or state.shares.find_committed(group_id) is not None
        )
        return DescribedGroup(
            group_id=group_id,
            error=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found.",
            state=GroupState.DEAD.value,
        )
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribedGroup(
        group_id=group_id,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=protocol_name or "",
        members=tuple(member.described(protocol_name) for member in group),
    )


def describe_consumer_group(state: CoordinatorState, group_id: str) -> DescribedConsumerGroup:
    """Describe a group of KIP-848."""
    group = state.consumers.find_committed(group_id)
    if group is None:
        is_other = (
            state.directory.find_committed(group_id) is not None or state.shares.find_committed(group_id) is not None
        )
        return DescribedConsumerGroup(
            group_id=group_id,
            error=ErrorCode.group_id_not_found,
            error_message=(
                f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
            ),
        )
    return DescribedConsumerGroup(
        group_id=group_id,
        state=group.state.value,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=preferred_assignor(group, state.settings.consumer_assignors),
        members=tuple(
            DescribedConsumer(
                member_id=member.member_id,
                about=member.about,
                epoch=member.current.epoch,
                assigned=frozenset((*member.current.assigned, *member.current.pending_revocation)),
                target=group.target_of(member.member_id),
            )
            for member in group
        ),
    )


def describe_share_group(state: CoordinatorState, group_id: str) -> DescribedShareGroup:
    """Describe a group of KIP-932."""
    group = state.shares.find_committed(group_id)
    if group is None:
        is_other = (
            state.directory.find_committed(group_id) is not None or state.consumers.find_committed(group_id) is not None
        )
        return DescribedShareGroup(
            group_id=group_id,
            error=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found.",
        )
    return DescribedShareGroup(
        group_id=group_id,
        state=group.state.value,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        members=tuple(
            DescribedShareMember(member.member_id, member.about, member.current.epoch, member.current.assigned)
            for member in group
        ),
    )


def list_groups(state: CoordinatorState, request: ListGroups) -> list[ListedGroup]:
    """All groups that pass the filters; states and types that do not exist let none pass."""
    types = frozenset(name.lower() for name in request.types)
    states = frozenset(name.lower() for name in request.states)
    return [
        group
        for group in _all(state)
        if (not types or group.group_type in types) and (not states or group.state.lower() in states)
    ]


def _all(state: CoordinatorState) -> Iterator[ListedGroup]:
    for group in state.directory.committed():
        yield ListedGroup(group.group_id, group.protocol_type or "", group.state.value, CLASSIC_TYPE)
    for consumers in state.consumers.committed():
        yield ListedGroup(consumers.group_id, PROTOCOL_TYPE, consumers.state.value, CONSUMER_TYPE)
    for shares in state.shares.committed():
        yield ListedGroup(shares.group_id, SHARE_TYPE, shares.state.value, SHARE_TYPE)
