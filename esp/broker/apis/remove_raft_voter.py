"""RemoveRaftVoter (81), version 0: a voter votes no more (KIP-853).

A broker passes the request on to the leader of the metadata quorum; the leader answers it on the listeners of controllers.
"""

from typing import Any

from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import forward
from esp.broker.raft.wire.voter_changes import decode_remove_request, encode_remove_response
from esp.broker.request import Request
from esp.broker.services import Services
from esp.protocol.registry import ApiKey
from esp.raft import messages


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: Any
) -> RemoveRaftVoterResponse:
    """Answer once the new voters are committed, or refused (RAFT-41, RAFT-43)."""
    return encode_remove_response(
        await services.raft.request(decode_remove_request(message), messages.VoterChangeResponse)
    )


async def handle(services: Services, request: Request, message: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Pass its answer on."""
    answer: RemoveRaftVoterResponse = await forward(services, request, ApiKey.REMOVE_RAFT_VOTER, message)
    return answer
