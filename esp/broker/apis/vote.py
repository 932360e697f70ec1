"""Vote (52), versions 0-2: a candidate asks for this member's vote, or if it would get it (KIP-595, KIP-996)."""

from typing import Any

from kio.schema.vote.v2.response import VoteResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.wire.elections import decode_vote_request, encode_vote_response
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, request: Request, message: Any) -> VoteResponse:
    """Let the core decide; its vote is durable before the answer is sent (RAFT-1)."""
    answer = await services.raft.request(decode_vote_request(message), messages.VoteResponse)
    return encode_vote_response(answer, request.client.listener)
