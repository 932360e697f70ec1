"""ListGroups (16), versions 0-5: the groups that this node coordinates. Tools ask all nodes.

By tagged fields of our own other brokers ask how far groups have read partitions that these hold (HOLD-4). That needs CLUSTER_ACTION.
"""

from collections.abc import Coroutine
from typing import Any

from kio.schema.list_groups.v5.response import ListedGroup
from kio.schema.types import GroupId

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authorization.access import allows_on_cluster
from esp.broker.holds.coordinators_here import find_positions_here
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import ListGroups
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.held_positions import (
    CoordinatorPositionsData,
    ListGroupsRequest,
    ListGroupsResponse,
    PositionData,
)


def handle(
    services: Services, request: Request, message: ListGroupsRequest
) -> ListGroupsResponse | Coroutine[Any, Any, ListGroupsResponse]:
    """Answer with the groups that the client may describe; at once, unless it is a broker that asks for positions.

    Raises:
        ApiError: COORDINATOR_LOAD_IN_PROGRESS: some of the groups are not known yet.
    """
    if message.coordinators:
        return _tell_positions(services, request, message)
    wanted = ListGroups(states=tuple(message.states_filter), types=tuple(message.types_filter))
    groups = []
    for coordinator in services.groups:
        try:
            groups += coordinator.core.list_groups(wanted)
        except ApiError as error:
            if error.code is not ErrorCode.not_coordinator:  # then they are another node's
                raise
    access, client = services.access, request.client
    if not allows_on_cluster(access, client, AclOperation.DESCRIBE):
        groups = [
            group
            for group in groups
            if access.allows(client, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
        ]
    return ListGroupsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        groups=tuple(
            ListedGroup(
                group_id=GroupId(group.group_id),
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.group_type,
            )
            for group in groups
        ),
    )


async def _tell_positions(services: Services, request: Request, message: ListGroupsRequest) -> ListGroupsResponse:
    told = None
    if allows_on_cluster(services.access, request.client, AclOperation.CLUSTER_ACTION):
        wanted = {
            TopicPartition(topic.name, number): topic.groups
            for topic in message.held_topics
            for number in topic.partitions
        }
        epochs = {coordinator.partition: coordinator.leader_epoch for coordinator in message.coordinators}
        found = await find_positions_here(services, wanted, epochs)
        told = tuple(
            CoordinatorPositionsData(
                partition=number,
                positions=tuple(
                    PositionData(
                        group_id=position.group_id,
                        topic=position.partition.topic,
                        partition=position.partition.partition,
                        offset=position.offset,
                    )
                    for position in positions
                ),
            )
            for number, positions in found.items()
        )
    return ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=(), coordinators=told)
