"""AddRaftVoter (80), versions 0-1: an observer becomes a voter (KIP-853).

A broker passes the request on to the leader of the metadata quorum; the leader answers it on the listeners of controllers.
"""

from typing import Any

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import check_whole, forward
from esp.broker.raft.wire.voter_changes import decode_add_request, encode_add_response
from esp.broker.request import Request
from esp.broker.services import Services
from esp.protocol.registry import ApiKey
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, _request: Request, message: Any) -> AddRaftVoterResponse:
    """Answer once the new voters are committed, or refused (RAFT-41, RAFT-42)."""
    return encode_add_response(await services.raft.request(decode_add_request(message), messages.VoterChangeResponse))


async def handle(services: Services, request: Request, message: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Pass its answer on."""
    check_whole(message.listeners)
    answer: AddRaftVoterResponse = await forward(services, request, ApiKey.ADD_RAFT_VOTER, message)
    return answer
