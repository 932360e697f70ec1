"""UpdateRaftVoter (82), version 0: a voter says where it listens now (KIP-853)."""

from typing import Any

from kio.schema.update_raft_voter.v0.response import UpdateRaftVoterResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.wire.voter_changes import decode_update_request, encode_update_response
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, request: Request, message: Any) -> UpdateRaftVoterResponse:
    """Answer once the new endpoints are in the log, or refused (RAFT-41)."""
    answer = await services.raft.request(decode_update_request(message), messages.VoterChangeResponse)
    return encode_update_response(answer, request.client.listener)
