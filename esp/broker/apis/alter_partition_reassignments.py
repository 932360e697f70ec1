"""AlterPartitionReassignments (45), versions 0-1: the controller decides (KIP-455).

On brokers the answer waits until this node knows of the decision (decision 8), on controllers until it is committed.
"""

from collections.abc import Iterable

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, require_time
from esp.broker.controller.services import ControllerServices
from esp.broker.following import until_follows_or_late
from esp.broker.forwarding import forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.protocol.registry import ApiKey


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Do what can be done; each partition is answered for itself."""
    if message.topics:
        require_time(message.timeout)
    wanted = list(_wanted(message))
    controller = services.controller
    outcomes = await controller.commit(
        lambda image: decide_reassignments(
            image,
            wanted,
            may_change_replication_factor=message.allow_replication_factor_change,
        ),
        "Reassignment",
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


async def handle(
    services: Services, request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Pass the controller's answer on once this node follows."""
    answer: AlterPartitionReassignmentsResponse = await forward(
        services, request, ApiKey.ALTER_PARTITION_REASSIGNMENTS, message
    )
    partitions = (partition for topic in answer.responses for partition in topic.partitions)
    if any(partition.error_code is ErrorCode.none for partition in partitions):
        await until_follows_or_late(services, message.timeout)
    return answer
