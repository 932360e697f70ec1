"""ListPartitionReassignments (46), version 0: passed on to the active controller."""

from kio.schema.list_partition_reassignments.v0.request import ListPartitionReassignmentsRequest
from kio.schema.list_partition_reassignments.v0.response import ListPartitionReassignmentsResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(
    services: Services, _request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    """Pass its answer on."""
    answer: ListPartitionReassignmentsResponse = await forward(services, ApiKey.LIST_PARTITION_REASSIGNMENTS, message)
    return answer
