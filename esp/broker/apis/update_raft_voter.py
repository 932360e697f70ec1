"""UpdateRaftVoter (82), version 0: a voter says where it listens now (KIP-853)."""

from typing import Any

from kio.schema.update_raft_voter.v0.response import UpdateRaftVoterResponse

from esp.broker.controller.services import ControllerServices
from esp.broker.raft.answers import read_update_voter, update_voter_answer
from esp.broker.request import Request
from esp.raft import messages


async def handle_at_controller(
    services: ControllerServices, _request: Request, message: Any
) -> UpdateRaftVoterResponse:
    """Answer once the new endpoints are in the log, or refused (RAFT-41)."""
    return update_voter_answer(await services.raft.request(read_update_voter(message), messages.VoterChangeResponse))
