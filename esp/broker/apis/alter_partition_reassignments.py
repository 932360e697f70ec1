"""AlterPartitionReassignments (45), versions 0-1: the controller decides (KIP-455).

By fields of our own it restores or purges a topic in the trash instead (:mod:`esp.protocol.trash`). On brokers the answer waits until
this node knows of the decision (decision 8), on controllers until it is committed.
"""

from collections.abc import Iterable

from kio.schema.alter_partition_reassignments.v1.response import (
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
from esp.controller.trash import decide_purge, decide_restore
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import ZERO_UUID, NodeId, TopicId
from esp.protocol.registry import ApiKey
from esp.protocol.trash import (
    PURGE,
    RESTORE,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Do what can be done; each partition is answered for itself."""
    if message.trash_action:
        return await _change_trash(services, message)
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


async def _change_trash(
    services: ControllerServices, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Restore or purge a topic."""
    topic_id, controller = TopicId(message.trash_topic_id or ZERO_UUID), services.controller
    offline: tuple[int, ...] = ()
    try:
        if message.trash_action == RESTORE:
            restored = await controller.commit(
                lambda image: decide_restore(image, topic_id, is_forced=message.is_forced), "Restoration"
            )
            name, offline = restored.name, restored.offline
        elif message.trash_action == PURGE:
            (purged,) = await controller.commit(lambda image: decide_purge(image, [topic_id]), "Purge")
            if isinstance(purged, ApiError):
                raise purged
            name = purged.topic.name
        else:
            raise ApiError(ErrorCode.invalid_request, f"There is no action {message.trash_action} of the trash.")
    except ApiError as error:
        if error.code is ErrorCode.not_controller:
            raise
        return AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, responses=()
        )
    return AlterPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        responses=(),
        trash_topic=name,
        offline=tuple(map(i32, offline)),
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
    if answer.trash_topic is not None or any(partition.error_code is ErrorCode.none for partition in partitions):
        await until_follows_or_late(services, message.timeout)
    return answer
