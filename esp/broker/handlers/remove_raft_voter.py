"""RemoveRaftVoter (81), version 0: passed on to the leader of the metadata quorum."""

from kio.schema.remove_raft_voter.v0.request import RemoveRaftVoterRequest
from kio.schema.remove_raft_voter.v0.response import RemoveRaftVoterResponse

from esp.broker.connections.request import Request
from esp.broker.forwarding import forward
from esp.broker.services import Services
from esp.protocol.registry import ApiKey


async def handle(services: Services, request: Request, message: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse:
    """Pass its answer on."""
    answer: RemoveRaftVoterResponse = await forward(services, ApiKey.REMOVE_RAFT_VOTER, message)
    return answer
