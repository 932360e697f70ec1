"""ListPartitionReassignments (46), version 0: partitions that get or lose replicas now, as the metadata says (KIP-455).

By a field of our own it lists the topics in the trash, too (:mod:`esp.protocol.trash`). A broker passes the request on to the active
controller, which answers it on the listeners of controllers.
"""

from collections.abc import Iterable

from kio.schema.list_partition_reassignments.v0.response import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, broker_ids
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.partition import PartitionState
from esp.protocol.registry import ApiKey
from esp.protocol.trash import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    TrashedData,
)


def handle_at_controller(
    services: ControllerServices, _request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Answer from what is committed; null asks for all, and what is not there is not in the answer."""
    if not services.controller.is_active:
        raise ApiError(ErrorCode.not_controller, "This controller is not the active one.")
    topics = services.metadata.image.topics_by_name
    wanted: Iterable[tuple[str, Iterable[int] | None]] = (
        ((name, None) for name in topics)
        if message.topics is None
        else ((topic.name, topic.partition_indexes) for topic in message.topics)
    )
    ongoing = []
    for name, numbers in wanted:
        states = topics[name].partitions if name in topics else ()
        found = [
            states[number]
            for number in (range(len(states)) if numbers is None else numbers)
            if 0 <= number < len(states) and states[number].is_reassigning
        ]
        if found:
            ongoing.append(
                OngoingTopicReassignment(name=TopicName(name), partitions=tuple(_describe(state) for state in found))
            )
    return ListPartitionReassignmentsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        topics=tuple(ongoing),
        trash=_trash(services) if message.with_trash else None,
    )


def _trash(services: ControllerServices) -> tuple[TrashedData, ...]:
    return tuple(
        TrashedData(
            name=trashed.topic.name,
            topic_id=topic_id,
            partitions=len(trashed.topic.partitions),
            trashed_ms=trashed.trashed_ms,
            until_ms=trashed.until_ms,
        )
        for topic_id, trashed in services.metadata.image.trashed_topics.items()
    )


def _describe(state: PartitionState) -> OngoingPartitionReassignment:
    return OngoingPartitionReassignment(
        partition_index=i32(state.partition),
        replicas=broker_ids(state.replicas),
        adding_replicas=broker_ids(state.adding_replicas),
        removing_replicas=broker_ids(state.removing_replicas),
    )


async def handle(
    services: Services, request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Pass its answer on."""
    answer: ListPartitionReassignmentsResponse = await forward(
        services, request, ApiKey.LIST_PARTITION_REASSIGNMENTS, message
    )
    return answer
