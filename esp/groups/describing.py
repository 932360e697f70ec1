"""DescribeGroups and ListGroups: what administrators are told, of groups that are committed."""

from esp.groups.directory import GroupDirectory
from esp.groups.requests import ListGroups
from esp.groups.responses import DescribedGroup, ListedGroup
from esp.groups.states import GroupState
from esp.model.errors import ErrorCode

GROUP_TYPE = "classic"
"""Kafka's name for groups of this protocol."""


def describe_group(directory: GroupDirectory, group_id: str) -> DescribedGroup:
    """A group; what members say of themselves only while it is stable."""
    group = directory.find_committed(group_id)
    if group is None:
        return DescribedGroup(
            group_id=group_id,
            error=ErrorCode.group_id_not_found,
            error_message=f"Group {group_id} not found.",
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


def list_groups(directory: GroupDirectory, request: ListGroups) -> list[ListedGroup]:
    """All groups that pass the filters; states and types that do not exist let none pass."""
    if request.types and GROUP_TYPE not in (name.lower() for name in request.types):
        return []
    states = frozenset(name.lower() for name in request.states)
    return [
        ListedGroup(group.group_id, group.protocol_type or "", group.state.value, GROUP_TYPE)
        for group in directory.committed()
        if not states or group.state.value.lower() in states
    ]
