"""EndQuorumEpoch (54), versions 0-1: a leader gives up its epoch (KIP-595)."""

from typing import Any

from kio.schema.end_quorum_epoch.v1.response import EndQuorumEpochResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.answers import end_quorum_epoch_answer, read_end_quorum_epoch
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(services: ControllerServices, _request: Request, message: Any) -> EndQuorumEpochResponse:
    """Let the core decide when to stand for election."""
    return end_quorum_epoch_answer(
        await services.raft.request(read_end_quorum_epoch(message), messages.EndQuorumEpochResponse)
    )
