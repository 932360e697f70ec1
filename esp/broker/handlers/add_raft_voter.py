"""AddRaftVoter (80), versions 0-1: passed on to the leader of the metadata quorum."""

from kio.schema.add_raft_voter.v1.request import AddRaftVoterRequest
from kio.schema.add_raft_voter.v1.response import AddRaftVoterResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import check_whole, forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: AddRaftVoterRequest) -> AddRaftVoterResponse:
    """Pass its answer on."""
    check_whole(message.listeners)
    answer: AddRaftVoterResponse = await forward(services, ApiKey.ADD_RAFT_VOTER, message)
    return answer
