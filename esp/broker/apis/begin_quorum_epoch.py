"""BeginQuorumEpoch (53), versions 0-1: a leader makes itself known to a voter (KIP-595)."""

from typing import Any

from kio.schema.begin_quorum_epoch.v1.response import BeginQuorumEpochResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.wire.elections import decode_begin_request, encode_begin_response
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(
    services: ControllerServices, request: Request, message: Any
) -> BeginQuorumEpochResponse:
    """Let the core decide whether to follow; the decision is durable before the answer is sent (RAFT-1)."""
    answer = await services.raft.request(decode_begin_request(message), messages.BeginQuorumEpochResponse)
    return encode_begin_response(answer, request.client.listener)
