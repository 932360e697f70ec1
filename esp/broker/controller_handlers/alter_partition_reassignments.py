"""AlterPartitionReassignments (45), versions 0-1, at the controller: the answer waits until it is committed (KIP-455)."""

from collections.abc import Iterable

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.static.primitive import i32

from esp.broker.any_listener.common import NO_THROTTLE, require_time
from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.controller.reassignment import Reassignment
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId


async def handle(
    services: ControllerServices, _request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Do what can be done; each partition is answered for itself."""
    if message.topics:
        require_time(message.timeout)
    outcomes = await services.controller.alter_reassignments(
        list(_wanted(message)), may_change_replication_factor=message.allow_replication_factor_change
    )
    errors = iter(outcomes)
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        allow_replication_factor_change=message.allow_replication_factor_change,
        error_code=ErrorCode.none,
        error_message=None if message.topics else "",  # as Kafka
        responses=tuple(
            ReassignableTopicResponse(
                name=topic.name,
                partitions=tuple(_describe(partition.partition_index, next(errors)) for partition in topic.partitions),
            )
            for topic in message.topics
        ),
    )


def _wanted(message: AlterPartitionReassignmentsRequest) -> Iterable[Reassignment]:
    for topic in message.topics:
        for partition in topic.partitions:
            replicas = partition.replicas
            yield Reassignment(
                topic.name,
                partition.partition_index,
                None if replicas is None else tuple(NodeId(node) for node in replicas),
            )


def _describe(partition_index: i32, error: ApiError | None) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(
        partition_index=partition_index,
        error_code=ErrorCode.none if error is None else error.code,
        error_message=None if error is None else error.message,
    )
