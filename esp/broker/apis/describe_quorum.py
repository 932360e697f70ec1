"""DescribeQuorum (55), versions 0-2: the quorum as its leader sees it (KIP-595, KIP-853, KIP-1073).

A broker passes the request on to the leader of the metadata quorum; the leader answers it on the listeners of controllers. If the leader
does not answer, the broker answers REQUEST_TIMED_OUT after a second and not after half a minute, and adds what it knows itself: the voters,
the newest epoch, its own end of the log. Clients of Kafka see the error, and ask again until their own time is up.
"""

from typing import Any, Final

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest
from kio.schema.describe_quorum.v2.response import DescribeQuorumResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.raft.description import describe_answer, describe_refusal, only_metadata
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

LEADER_TIMEOUT_MS: Final = 1_000
"""The time for the leader's answer. An operator asks most often while the quorum has no leader."""


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
    """Pass the leader's answer on.

    Raises:
        ApiError: REQUEST_TIMED_OUT: the leader does not answer, and the request is not about the metadata log.
    """
    try:
        answer: DescribeQuorumResponse = await forward(
            services, request, ApiKey.DESCRIBE_QUORUM, message, timeout_ms=LEADER_TIMEOUT_MS
        )
    except ApiError as error:
        if not only_metadata(message.topics):
            raise
        return describe_answer(services.raft.describe_from_here(), services.raft.now(), error.code, error.message or "")
    return answer
