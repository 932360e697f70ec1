"""Members of a quorum for tests: made, elected, asked."""

import uuid
from random import Random

from esp.broker.raft.config import quorum_settings
from esp.model.errors import ErrorCode
from esp.model.ids import DirectoryId, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.raft.effects import Commit, Persist, Reply, Send
from esp.raft.log_outline import LogOutline
from esp.raft.member import Member
from esp.raft.messages import FetchRequest, FetchResponse, VoteRequest, VoteResponse
from esp.raft.node import RaftNode
from esp.raft.voter_history import VoterHistory
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.settings.broker import BrokerSettings
from esp.simulation.machine.env import SeededRandom

CLUSTER = "sKc3HhTGTQ2kA0ZGqSBXvA"
LISTENER = "CONTROLLER"
SECOND_US = 1_000_000


def key(number, disk=0):
    return VoterKey(NodeId(number), DirectoryId(uuid.UUID(int=1000 + 100 * disk + number)))


def endpoints(number, port=None):
    return (VoterEndpoint(LISTENER, "host", port or 9000 + number),)


def address(number):
    return Address("host", 9000 + number)


def voter_set(*numbers):
    return VoterSet(tuple(Voter(key(number), endpoints(number)) for number in numbers))


def at(seconds):
    return Now(round(seconds * SECOND_US), 1_795_000_000_000)


def member(
    number=1, voters=(1, 2, 3), *, log=None, state=None, role=True, kraft_version=1, own=None, disk=0, committed=0
):
    if kraft_version:
        known = voters if isinstance(voters, VoterSet) else voter_set(*voters)
    else:
        zero = DirectoryId(uuid.UUID(int=0))
        known = VoterSet(tuple(Voter(VoterKey(NodeId(each), zero), endpoints(each)) for each in voters))
    return RaftNode(
        Member(
            key(number, disk),
            cluster_id=CLUSTER,
            has_controller_role=role,
            endpoints=(own or endpoints(number)) if role else (),
            listener_name=LISTENER,
            voters=VoterHistory(known, kraft_version),
            bootstrap=(),
            quorum_state=state,
            log=log or LogOutline(),
            settings=quorum_settings(BrokerSettings()),
            random=SeededRandom(Random(number)),
            committed_offset=committed,
        )
    )


def log(end_offset, *epochs, flushed=None, start=0, start_epoch=0, snapshot=None):
    return LogOutline(
        start_offset=start,
        start_epoch=start_epoch,
        end_offset=end_offset,
        flushed_offset=end_offset if flushed is None else flushed,
        epochs=epochs,
        snapshot_id=snapshot,
    )


def of_type(effects, type_):
    return [effect for effect in effects if isinstance(effect, type_)]


def sent(effects, type_):
    """The requests of a type that are sent, by whom they go to."""
    return {
        effect.peer.node_id: effect.request for effect in of_type(effects, Send) if isinstance(effect.request, type_)
    }


def reply(effects, token="token"):
    (answer,) = [effect for effect in of_type(effects, Reply) if effect.token == token]
    return answer.response


def committed(effects):
    return [effect.high_watermark for effect in of_type(effects, Commit)]


def persisted(effects):
    return [effect.state for effect in of_type(effects, Persist)]


def deadline(node):
    """The moment at which the node wants to be called."""
    return Now(node.next_deadline_us, 1_795_000_000_000)


def vote(epoch, candidate=2, *, voter=1, last_epoch=0, end=0, pre=False, cluster=CLUSTER, disk=0):
    return VoteRequest(
        cluster_id=cluster,
        voter=key(voter),
        candidate_epoch=LeaderEpoch(epoch),
        candidate=key(candidate, disk),
        last_epoch=last_epoch,
        last_epoch_end_offset=end,
        pre_vote=pre,
    )


def granted(epoch):
    return VoteResponse(leader_epoch=LeaderEpoch(epoch), is_granted=True)


def rejected(epoch, leader=-1):
    return VoteResponse(leader_epoch=LeaderEpoch(epoch), leader_id=NodeId(leader))


def fetch(epoch, offset, last_epoch, replica=2, *, high_watermark=None, wait_ms=500, disk=0, cluster=CLUSTER):
    return FetchRequest(
        cluster_id=cluster,
        replica=key(replica, disk),
        current_leader_epoch=LeaderEpoch(epoch),
        fetch_offset=offset,
        last_fetched_epoch=last_epoch,
        high_watermark=high_watermark,
        max_wait_ms=wait_ms,
        max_bytes=1_000_000,
    )


def fetched(epoch, leader=2, **fields):
    return FetchResponse(
        leader_epoch=LeaderEpoch(epoch),
        leader_id=NodeId(leader),
        leader_endpoints=endpoints(leader),
        error=fields.pop("error", ErrorCode.none),
        **fields,
    )


def prospective(node, now=None):
    """Let a started voter without a leader ask for pre-votes; returns the requests."""
    effects = node.start(at(0))
    requests = sent(effects, VoteRequest)
    return requests or sent(node.on_tick(now or deadline(node)), VoteRequest)


def elect(node, now=None):
    """Let a voter of three win an election with the votes of node 2; returns the effects of the victory."""
    requests = prospective(node)
    now = now or at(0.5)
    effects = node.on_response(now, NodeId(2), requests[2], granted(node.epoch))
    requests = sent(effects, VoteRequest)
    return node.on_response(now, NodeId(2), requests[2], granted(node.epoch))
