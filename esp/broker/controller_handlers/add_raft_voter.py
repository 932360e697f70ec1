"""AddRaftVoter (80), versions 0-1: an observer becomes a voter (KIP-853)."""

from typing import Any

from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse

from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.broker.quorum.answers import add_voter_answer, read_add_voter
from esp.raft import messages


async def handle(services: ControllerServices, _request: Request, message: Any) -> AddRaftVoterResponse:
    """Answer once the new voters are committed, or refused (RAFT-41, RAFT-42)."""
    return add_voter_answer(await services.raft.request(read_add_voter(message), messages.VoterChangeResponse))
