"""DescribeQuorum (55), versions 0-2: the quorum as its leader sees it (KIP-595, KIP-853, KIP-1073).

A broker passes the request on to the leader of the metadata quorum; the leader answers it on the listeners of controllers.
"""

from typing import Any

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.raft.description import describe_answer, describe_refusal, only_metadata
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey


def handle_at_controller(services: ControllerServices, _request: Request, message: Any) -> DescribeQuorumResponse:
    """Only the leader knows how far the others are."""
    if not only_metadata(message.topics):
        return describe_refusal(
            message.topics, ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."
        )
    now = services.raft.now()
    description = services.raft.describe(now)
    if description is None:
        return describe_refusal(
            message.topics, ErrorCode.not_leader_or_follower, "This controller does not lead the quorum."
        )
    return describe_answer(description, now)


async def handle(services: Services, request: Request, message: DescribeQuorumRequest) -> DescribeQuorumResponse:
    """Pass its answer on."""
    answer: DescribeQuorumResponse = await forward(services, ApiKey.DESCRIBE_QUORUM, message)
    return answer
