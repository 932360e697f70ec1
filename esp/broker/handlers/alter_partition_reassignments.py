"""AlterPartitionReassignments (45), versions 0-1: the controller decides; the answer waits until this node knows of it (decision 8)."""

from collections.abc import Sequence

from kio.schema.alter_partition_reassignments.v1.request import AlterPartitionReassignmentsRequest
from kio.schema.alter_partition_reassignments.v1.response import AlterPartitionReassignmentsResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward, until_applied
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.partition import PartitionState
from esp.protocol.registry import ApiKey


async def handle(
    services: Services, _request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Pass the controller's answer on once this node follows."""
    before = services.metadata.image
    answer: AlterPartitionReassignmentsResponse = await forward(services, ApiKey.ALTER_PARTITION_REASSIGNMENTS, message)
    done = {
        (topic.name, partition.partition_index)
        for topic in answer.responses
        for partition in topic.partitions
        if partition.error_code is ErrorCode.none
    }
    wanted: dict[tuple[str, int], Sequence[int] | None] = {
        (topic.name, partition.partition_index): partition.replicas
        for topic in message.topics
        for partition in topic.partitions
        if (topic.name, partition.partition_index) in done
    }

    def has_followed(image: ClusterImage) -> bool:
        for (name, number), replicas in wanted.items():
            old, new = _find(before, name, number), _find(image, name, number)
            if old is None or new is None or new.partition_epoch > old.partition_epoch:
                continue
            if new.is_reassigning if replicas is None else new.target_replicas != replicas:
                return False
        return True

    await until_applied(services, has_followed, message.timeout)
    return answer


def _find(image: ClusterImage, name: str, number: int) -> PartitionState | None:
    topic = image.topics_by_name.get(name)
    return topic.partitions[number] if topic is not None and 0 <= number < len(topic.partitions) else None
