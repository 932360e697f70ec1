"""EndQuorumEpoch (54), versions 0-1: a leader gives up its epoch (KIP-595)."""

from typing import Any

from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.wire.elections import decode_end_request, encode_end_response
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, request: Request, message: Any) -> EndQuorumEpochResponse:
    """Let the core decide when to stand for election."""
    answer = await services.raft.request(decode_end_request(message), messages.EndQuorumEpochResponse)
    return encode_end_response(answer, request.client.listener)
