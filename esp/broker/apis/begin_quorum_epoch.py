"""BeginQuorumEpoch (53), versions 0-1: a leader makes itself known to a voter (KIP-595)."""

from typing import Any

from kio.schema.begin_quorum_epoch.v1.response import BeginQuorumEpochResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.answers import begin_quorum_epoch_answer, read_begin_quorum_epoch
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: Any
) -> BeginQuorumEpochResponse:
    """Let the core decide whether to follow; that it does is durable before it is told (RAFT-1)."""
    return begin_quorum_epoch_answer(
        await services.raft.request(read_begin_quorum_epoch(message), messages.BeginQuorumEpochResponse)
    )
