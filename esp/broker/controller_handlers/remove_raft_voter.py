"""RemoveRaftVoter (81), version 0: a voter votes no more (KIP-853)."""

from typing import Any

from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from esp.broker.connections.request import Request
from esp.broker.controller.services import ControllerServices
from esp.broker.quorum.answers import read_remove_voter, remove_voter_answer
from esp.raft import messages


async def handle(services: ControllerServices, _request: Request, message: Any) -> RemoveRaftVoterResponse:
    """Answer once the new voters are committed, or refused (RAFT-41, RAFT-43)."""
    return remove_voter_answer(await services.raft.request(read_remove_voter(message), messages.VoterChangeResponse))
