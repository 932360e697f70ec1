"""ElectLeaders (43), versions 0-2: a request for preferred leaders, or for any leader at all (ELECT-3, ELECT-1.5; KIP-460).

A broker passes it on to the active controller, which answers it on the listeners of controllers.
"""

from collections.abc import Mapping
from typing import Final

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse, PartitionResult, ReplicaElectionResult
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, require_time
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.elections import decide_elect_leaders
from esp.controller.partition_change import Election
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey

_ELECTIONS: Final[Mapping[int, Election]] = {0: Election.PREFERRED, 1: Election.UNCLEAN}


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Answer each partition with success or why there is none; if all were asked for, those that need no election are left out."""
    if message.topic_partitions == ():
        return ElectLeadersResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, replica_election_results=())
    require_time(message.timeout)
    election = _ELECTIONS.get(message.election_type)
    if election is None:
        raise ApiError(ErrorCode.invalid_request, f"Unknown election type {message.election_type}")
    asked = message.topic_partitions
    wanted = None if asked is None else [(topic.topic, topic.partitions) for topic in asked]
    outcomes = await services.controller.commit(
        lambda image: decide_elect_leaders(image, election, wanted), "Leader election"
    )
    return ElectLeadersResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        replica_election_results=tuple(
            ReplicaElectionResult(
                topic=TopicName(name),
                partition_result=tuple(
                    PartitionResult(
                        partition_id=i32(number),
                        error_code=ErrorCode.none if error is None else error.code,
                        error_message=None if error is None else error.message,
                    )
                    for number, error in partitions
                ),
            )
            for name, partitions in outcomes
        ),
    )


async def handle(services: Services, request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    """Pass its answer on."""
    answer: ElectLeadersResponse = await forward(services, request, ApiKey.ELECT_LEADERS, message)
    return answer
