"""Calls to other members: each ends in exactly one way, and a process that is gone is noticed when its connection breaks."""

import asyncio
from random import Random

from esp.broker.raft.peers import QuorumPeers
from esp.broker.tasks import Tasks
from esp.model.ids import DirectoryId, LeaderEpoch, NodeId
from esp.model.peer_terms import PLAINTEXT
from esp.raft.effects import Peer
from esp.raft.messages import FetchRequest, VoteRequest, VoteResponse
from esp.raft.voters import VoterKey
from esp.simulation.machine.env import simulated_env
from tests.unit.broker.quorum_conversation import CLUSTER_ID, LISTENER, address, with_quorum


class Answers:
    def __init__(self):
        self.told = []

    def on_response(self, peer, request, response):
        self.told.append((peer, request, response))

    def on_send_failed(self, peer, request, *, refused):
        self.told.append((peer, request, refused))


def _asker(quorum, request_timeout_ms=500):
    """The peers of a process of its own."""
    process = quorum.loop.new_process("asker")
    member = next(iter(quorum.members.values()))
    answers = Answers()
    gone = []

    def make():
        env = simulated_env(quorum.loop, Random(1), process, member.disk, quorum.network)
        return QuorumPeers(
            env,
            Tasks(env.host),
            NodeId(9),
            request_timeout_ms,
            answers,
            gone.append,
            listener=LISTENER,
            terms=PLAINTEXT,
        )

    return process, process.context.copy().run(make), answers, gone


def _vote(quorum, epoch=0):
    key = VoterKey(NodeId(9), DirectoryId(quorum.uuid()))
    return VoteRequest(
        cluster_id=CLUSTER_ID,
        voter=quorum[1].key,
        candidate_epoch=LeaderEpoch(epoch),
        candidate=key,
        last_epoch=0,
        last_epoch_end_offset=0,
        pre_vote=True,
    )


def _fetch(quorum, max_wait_ms=1000):
    return FetchRequest(
        cluster_id=CLUSTER_ID,
        replica=VoterKey(NodeId(9), DirectoryId(quorum.uuid())),
        current_leader_epoch=quorum[1].raft.epoch,
        fetch_offset=quorum[1].raft.next_offset,
        last_fetched_epoch=quorum[1].raft.epoch,
        high_watermark=quorum[1].raft.high_watermark,
        max_wait_ms=max_wait_ms,
        max_bytes=1000,
    )


async def _send(process, peers, member, request):
    async def send():
        peers.send(member, request)

    await process.run(send())


@with_quorum(1)
async def test_a_vote_is_not_held_up_by_a_fetch_that_waits(quorum):
    await quorum.elect()
    process, peers, answers, _ = _asker(quorum)
    member = Peer(NodeId(1), quorum[1].address)
    fetch, vote = _fetch(quorum), _vote(quorum)
    await _send(process, peers, member, fetch)
    await _send(process, peers, member, vote)
    await asyncio.sleep(0.1)
    assert [(peer, request) for peer, request, _ in answers.told] == [(1, vote)]
    assert isinstance(answers.told[0][2], VoteResponse)
    await quorum.wait(lambda: len(answers.told) == 2)
    assert answers.told[1][1] is fetch


@with_quorum(1)
async def test_where_nobody_listens_the_call_is_refused(quorum):
    process, peers, answers, _ = _asker(quorum)
    vote = _vote(quorum)
    await _send(process, peers, Peer(NodeId(5), address(5)), vote)
    await quorum.wait(lambda: answers.told)
    assert answers.told == [(5, vote, True)]


@with_quorum(1)
async def test_a_silent_peer_fails_when_its_time_is_up(quorum):
    await quorum.elect()
    process, peers, answers, gone = _asker(quorum)
    quorum[1].process.pause()
    await _send(process, peers, Peer(NodeId(1), quorum[1].address), _vote(quorum))
    start_s = quorum.loop.time()
    await quorum.wait(lambda: answers.told)
    assert 0.4 < quorum.loop.time() - start_s < 0.7
    assert answers.told[0][2] is False
    assert gone == []


@with_quorum(1)
async def test_the_end_of_a_process_is_told_when_its_connection_breaks(quorum):
    await quorum.elect()
    process, peers, answers, gone = _asker(quorum)
    await _send(process, peers, Peer(NodeId(1), quorum[1].address), _fetch(quorum))
    await asyncio.sleep(0.05)
    quorum[1].kill()
    await asyncio.sleep(0.05)
    assert gone == [quorum[1].address]
    assert answers.told[0][2] is False  # what was asked may have been done


@with_quorum(1)
async def test_a_broken_connection_to_a_process_that_lives_tells_nothing(quorum):
    await quorum.elect()
    process, peers, _, gone = _asker(quorum, request_timeout_ms=-900)  # so that the fetch times out
    await _send(process, peers, Peer(NodeId(1), quorum[1].address), _fetch(quorum))
    await asyncio.sleep(1)
    assert gone == []


@with_quorum(1)
async def test_nothing_is_probed_after_the_end(quorum):
    await quorum.elect()
    process, peers, answers, gone = _asker(quorum)
    await _send(process, peers, Peer(NodeId(1), quorum[1].address), _fetch(quorum))
    await asyncio.sleep(0.05)
    process.context.copy().run(peers.close)
    quorum[1].kill()
    await asyncio.sleep(0.1)
    assert gone == []
    assert len(answers.told) == 1
