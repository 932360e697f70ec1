"""A quorum of raft cores on a heap of events: no event loop, no sockets, a thousand times faster than the clock.

A run has two parts. First faults by seed: messages are lost, late, doubled, links are cut one way or both, processes are killed, paused,
shut down cleanly, lose power, lose their disk; voters are added and removed; snapshots are written. Then everything heals, and the quorum
must come to one leader, equal logs and no further elections. :mod:`esp.simulation.quorum_tier.checks` holds at every step.

Faults at the moments where one hurts most: a voter dies when it has just voted, a leader when it was just elected, or just committed.

Faults that come at any time meet these moments rarely; the bugs of quorums live in them (KAFKA-10527, KAFKA-12619, KAFKA-14618).
"""

import heapq
from collections.abc import Callable
from functools import partial
from random import Random
from uuid import UUID

from esp.broker.raft.config import quorum_settings
from esp.model.errors import ErrorCode
from esp.model.ids import DirectoryId, NodeId
from esp.ports.network import Address
from esp.raft.effects import Peer
from esp.raft.messages import (
    AddVoterRequest,
    FetchRequest,
    RemoveVoterRequest,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.settings.broker import BrokerSettings
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.quorum_tier.checks import QuorumChecks
from esp.simulation.quorum_tier.liveness import (
    CHECK_INTERVAL_US,
    LOST_LEADER_US,
    QuorumContacts,
    check_live,
    check_replaced,
)
from esp.simulation.quorum_tier.log import QuorumDisk
from esp.simulation.quorum_tier.member import CLUSTER_ID, LISTENER, Call, QuorumMember
from esp.simulation.quorum_tier.profile import SECOND_US, QuorumProfile
from esp.simulation.streams import between

_SOON_US = 30_000
_SLOW_SNAPSHOT_SHARE = 0.3
"""The share of the snapshots that the device takes slowly."""

_SLOW_SNAPSHOT_US_MAX = 10 * SECOND_US
_RARE = {"committed": 0.02, "voted": 0.3}
"""Moments that come often get fewer faults; the rest get one by the profile."""


class QuorumAims:
    """Aims by the profile's ``targeted``.

    Args:
        cluster: what suffers.
    """

    def __init__(self, cluster: "QuorumCluster") -> None:
        self._cluster = cluster

    def on_moment(self, member: QuorumMember, moment: str) -> None:
        """Let something happen at a member, right after a moment: ``elected``, ``voted``, ``committed`` or ``voters``."""
        cluster = self._cluster
        random = cluster.random
        if random.random() >= cluster.profile.targeted * _RARE.get(moment, 1):
            return
        delay_us = random.randrange(_SOON_US) if random.random() < 0.7 else 0
        cluster.notes.append(f"{cluster.now_us} aimed at {member.node_id}, {moment}")
        kind = random.choice(("snapshots", "restart", "power", "cut"))
        if kind == "snapshots":
            cluster.after(member, delay_us, self._write_snapshots)
        elif kind == "cut":
            cluster.after(member, delay_us, lambda: cluster.inflict("cut", member))
        else:
            cluster.after(member, delay_us, lambda: self._restart(member, loses_power=kind == "power"))

    def _restart(self, member: QuorumMember, *, loses_power: bool) -> None:
        """Let it die and be back before any other member misses it."""
        self._cluster.kill(member, loses_power=loses_power, restart_us=self._cluster.random.randrange(1_000, 60_000))

    def _write_snapshots(self) -> None:
        for member in self._cluster.members.values():
            if member.paused_until_us <= self._cluster.now_us:
                member.write_snapshot(self._cluster.draw_snapshot_us())

    def lose_leader(self, calm_us: int) -> None:
        """Heal everything, then cut the leader off without a word: the others must replace it, if they are a majority (RAFT-6)."""
        cluster = self._cluster
        cluster.heal()
        cluster.run_until(cluster.now_us + calm_us // 2)
        leader = next((member for member in cluster.members.values() if member.is_leader), None)
        if leader is None:
            return
        for other in cluster.members.values():
            if other is not leader:
                cluster.cuts |= {(leader.node_id, other.node_id), (other.node_id, leader.node_id)}
        cluster.run_until(cluster.now_us + LOST_LEADER_US)
        if cluster.checks.durability_is_owed:
            check_replaced(cluster.members, leader)

    def roll_back(self) -> None:
        """Let a majority of the voters come back with older disks: from then on only RAFT-10 is owed of what was committed."""
        cluster = self._cluster
        cluster.checks.durability_is_owed = False
        voters = [cluster.members[voter.key.node_id] for voter in cluster.first_voters.voters]
        for member in cluster.random.sample(voters, len(voters) // 2 + 1):
            cluster.kill(member, restart_us=cluster.random.randrange(SECOND_US))
            member.disk.roll_back(cluster.random)


_QUIET_US = 5 * SECOND_US
_REQUEST_TIMEOUT_US = 2 * SECOND_US
_EMPTY_SHARE = 0.2
"""The share of the controllers to be added that have been given empty disks, and come up in that moment."""


class QuorumCluster:
    """The world of one run; see :class:`~esp.simulation.quorum_tier.member.QuorumWorld`.

    Args:
        seed: everything that is random comes from it.
        profile: the kind of run; None to draw one.
    """

    def __init__(self, seed: int, profile: QuorumProfile | None = None) -> None:
        self.random = Random(seed)  # noqa: S311 -- a replay by seed is what this is for
        self.profile = profile or QuorumProfile.drawn(self.random)
        self.now_us = 0
        self.checks = QuorumChecks()
        self.disks: dict[VoterKey, QuorumDisk] = {}
        self.members: dict[NodeId, QuorumMember] = {}
        self.events = 0
        self.elections = 0
        self.notes: list[str] = []
        self._heap: list[tuple[int, int, Callable[[], None], QuorumMember | None, int]] = []
        """The actions by their times, with the member, if there is one, and the life in which it wants that."""
        self._order = 0
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        self._is_calm = False
        self._is_quiet = False
        self._proposed = 0
        self._directories = 0
        self._aims = QuorumAims(self)
        self._contacts = QuorumContacts()
        self._make_members()

    def _make_members(self) -> None:
        profile = self.profile
        controllers = [NodeId(number + 1) for number in range(profile.voters + profile.spares)]
        disks = {node_id: self._new_directory() for node_id in controllers}
        zero = DirectoryId(UUID(int=0))
        voters = VoterSet(
            tuple(
                Voter(
                    VoterKey(node_id, disks[node_id] if profile.kraft_version else zero),
                    (VoterEndpoint(LISTENER, "host", node_id + 1000),),
                )
                for node_id in controllers[: profile.voters]
            )
        )
        self.first_voters = voters
        self.bootstrap = [Address("host", node_id + 1000) for node_id in controllers]
        for number in range(len(controllers) + profile.observers):
            node_id = NodeId(number + 1)
            is_controller = node_id in disks
            is_formatted = node_id in controllers[: profile.voters] or not profile.kraft_version
            member = QuorumMember(
                self,
                node_id,
                has_controller_role=is_controller,
                disk=QuorumDisk(
                    disks.get(node_id) or self._new_directory(),
                    voters if is_formatted else VoterSet(()),
                    profile.kraft_version if is_formatted else 0,
                ),
                random=self.random,
                settings=quorum_settings(BrokerSettings()),
            )
            member.flush_us_max = profile.flush_us_max
            self.members[node_id] = member
            self._add_disk(member)

    def _new_directory(self) -> DirectoryId:
        self._directories += 1
        return DirectoryId(UUID(int=self._directories + (1 << 64)))

    def _add_disk(self, member: QuorumMember) -> None:
        self.disks[member.key] = member.disk
        if not self.profile.kraft_version:
            self.disks[VoterKey(member.node_id, DirectoryId(UUID(int=0)))] = member.disk

    # The run

    def run(self, chaos_us: int = 20 * SECOND_US, calm_us: int = 20 * SECOND_US) -> None:
        """Do all of it; raises ViolationError if something did not hold."""
        self.start()
        self.begin_load()
        self._push(self._next_fault_us(), self._fault)
        self._push(CHECK_INTERVAL_US, self._check_leaders)
        if self.profile.rolls_back:
            self._push(self.random.randrange(chaos_us), self._aims.roll_back)
        self.run_until(chaos_us)
        if self.profile.loses_leader:
            self._aims.lose_leader(calm_us)
        self.settle(calm_us)

    def _check_leaders(self) -> None:
        self._push(CHECK_INTERVAL_US, self._check_leaders)
        for member in self.members.values():
            if member.is_leader:
                self._contacts.check(member, self.now_us)

    def begin_load(self) -> None:
        """Let every leader propose records from now on."""
        self._push(self.profile.propose_interval_us, self._propose)

    def settle(self, calm_us: int) -> None:
        """Heal everything, and check that the quorum has recovered after ``calm_us``."""
        self.heal()
        self.run_until(self.now_us + calm_us)
        epoch = self._epoch()
        self._is_quiet = True
        self.run_until(self.now_us + _QUIET_US)
        if not self.checks.durability_is_owed:
            return
        check_live(self.members)
        if self._epoch() != epoch:
            raise ViolationError("LIVE-QUIET", "quorum", f"epoch {epoch} -> {self._epoch()}")

    def _epoch(self) -> int:
        return max(member.node.epoch for member in self.members.values() if member.node is not None)

    def start(self) -> None:
        """Start all processes."""
        for member in self.members.values():
            member.start(self.bootstrap)

    def run_until(self, end_us: int, is_done: Callable[[], bool] | None = None) -> None:
        """Let time pass, up to a moment or until something is so."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, action, member, incarnation = heapq.heappop(heap)
            self.events += 1
            if member is None:
                action()
            elif member.incarnation == incarnation:
                if member.paused_until_us > self.now_us:
                    self.after(member, member.paused_until_us - self.now_us, action)
                else:
                    action()
            if is_done is not None and is_done():
                return
        self.now_us = end_us

    def heal(self) -> None:
        """No more faults: links are whole, all processes run."""
        self._is_calm = True
        self.cuts.clear()
        for member in self.members.values():
            # What it left undone is still done only when the pause would have ended, so the checks of its duties have to know.
            member.paused_until_us = min(member.paused_until_us, self.now_us)
            if member.node is None:
                member.start(self.bootstrap)

    # What members need of the world

    def after(self, member: QuorumMember, delay_us: int, action: Callable[[], None]) -> None:
        """See :class:`~esp.simulation.quorum_tier.member.QuorumWorld`."""
        self._order += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._order, action, member, member.incarnation))

    def send(self, sender: QuorumMember, peer: Peer, request: Request) -> None:
        """See :class:`~esp.simulation.quorum_tier.member.QuorumWorld`."""
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.checks.on_vote(sender.key, request.candidate_epoch, request.candidate, sender.disk.quorum_state)
        receiver = self.members.get(NodeId(peer.address.port - 1000))
        self._contacts.on_sent(sender, request, self.now_us)
        wait_us = request.max_wait_ms * 1000 if isinstance(request, FetchRequest) else 0
        call = Call(sender, peer.node_id, request)
        sender.timeouts.add(call, _REQUEST_TIMEOUT_US + wait_us)
        if receiver is None or not self._arrives(sender.node_id, receiver.node_id):
            return
        for _ in range(1 + (self.random.random() < self.profile.doubled and not self._is_calm)):
            self._push(self._delay_us(), partial(self._deliver, call, receiver))

    def on_moment(self, member: QuorumMember, moment: str) -> None:
        """See :class:`~esp.simulation.quorum_tier.member.QuorumWorld`."""
        if not self._is_calm:
            self._aims.on_moment(member, moment)

    def _deliver(self, call: Call, receiver: QuorumMember) -> None:
        if (call.sender.node_id, receiver.node_id) in self.cuts:
            return
        if receiver.node is None:
            if self._arrives(receiver.node_id, call.sender.node_id):
                self.after(call.sender, self._delay_us(), partial(call.fail, refused=True))
            return
        if receiver.paused_until_us > self.now_us:
            self._push(receiver.paused_until_us - self.now_us, partial(self._deliver, call, receiver))
            return
        incarnation, request = receiver.incarnation, call.request
        self._contacts.on_request(receiver, request, self.now_us)

        def answer(response: Response) -> None:
            is_vote = isinstance(response, VoteResponse) and response.is_granted
            if is_vote and isinstance(request, VoteRequest) and not request.pre_vote:
                state = receiver.disk.quorum_state
                self.checks.on_vote(receiver.key, request.candidate_epoch, request.candidate, state)
                self.on_moment(receiver, "voted")
            if receiver.incarnation == incarnation and self._arrives(receiver.node_id, call.sender.node_id):
                self.after(call.sender, self._delay_us(), partial(call.end, response))

        receiver.do(receiver.node.on_request(receiver.now, call.request, answer))

    def _arrives(self, sender: NodeId, receiver: NodeId) -> bool:
        if (sender, receiver) in self.cuts:
            return False
        return self._is_calm or self.random.random() >= self.profile.loss

    def _delay_us(self) -> int:
        if not self._is_calm and self.random.random() < self.profile.spike_probability:
            return self.random.randrange(self.profile.spike_max_us)
        return between(self.random, 100, self.profile.delay_max_us - 1)

    def _push(self, delay_us: int, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._order, action, None, 0))

    # Load and faults

    def _propose(self) -> None:
        if self._is_quiet:
            return
        interval_us = self.profile.find_interval_us(is_calm=self._is_calm)
        self._push(interval_us // 2 + self.random.randrange(interval_us), self._propose)
        for member in self.members.values():
            node = member.node
            if member.is_leader and node is not None and member.paused_until_us <= self.now_us:
                self._proposed += 1
                values = [b"%d" % self._proposed for _ in range(self.random.randrange(1, 4))]
                member.do(node.propose(member.now, values))

    def _next_fault_us(self) -> int:
        return round(self.random.expovariate(self.profile.faults_per_s) * SECOND_US)

    def _fault(self) -> None:
        if self._is_calm:
            return
        self._push(self._next_fault_us(), self._fault)
        kind = self.random.choice(self.profile.kinds)
        members = list(self.members.values())
        leaders = [member for member in members if member.is_leader]
        member = self.random.choice(leaders if leaders and self.random.random() < 0.5 else members)
        self.inflict(kind, member)

    def draw_snapshot_us(self) -> int:
        """The time that the writing of a snapshot takes: it runs beside all else that a member does."""
        is_slow = not self._is_calm and self.random.random() < _SLOW_SNAPSHOT_SHARE
        return self.random.randrange(_SLOW_SNAPSHOT_US_MAX) if is_slow else 0

    def inflict(self, kind: str, member: QuorumMember) -> None:
        """Let one of :data:`KINDS` happen at a member."""
        self.notes.append(f"{self.now_us} {kind} {member.node_id}")
        if kind == "kill":
            self.kill(member)
        elif kind == "power":
            self.kill(member, loses_power=True)
        elif kind == "outage":
            for other in self.members.values():
                self.kill(other, loses_power=self.random.random() < 0.7)
        elif kind == "stop":
            self._stop_in_order(member)
        elif kind == "pause":
            member.paused_until_us = self.now_us + self.random.randrange(6 * SECOND_US)
        elif kind in {"cut", "cut one way"}:
            self._cut(member, both_ways=kind == "cut")
        elif kind == "lose disk":
            self._lose_disk(member)
        elif kind == "snapshot":
            if member.paused_until_us <= self.now_us:
                member.write_snapshot(self.draw_snapshot_us())
        else:
            self._change_voters(kind)

    def kill(self, member: QuorumMember, *, loses_power: bool = False, restart_us: int | None = None) -> None:
        """End a process; members that were connected to it notice soon, and find that it does not listen. It is back after a while."""
        if member.node is None:
            return
        member.stop()
        if loses_power:
            member.disk.lose_power(self.random)
        for other in self.members.values():
            if other.node is not None and other.followed == member.node_id:
                self.after(other, self.random.randrange(500, 10_000), lambda other=other: self._probe(other, member))  # type: ignore[misc]
        delay_us = self.random.randrange(10_000, 8 * SECOND_US) if restart_us is None else restart_us
        self._push(delay_us, lambda: self._restart(member))

    def _probe(self, member: QuorumMember, leader: QuorumMember) -> None:
        """A member whose connection to its leader broke asks whether its leader still listens."""
        node = member.node
        is_reachable = not {(member.node_id, leader.node_id), (leader.node_id, member.node_id)} & self.cuts
        if node is not None and leader.node is None and is_reachable and node.leader_id == leader.node_id:
            member.do(node.on_leader_gone(member.now))

    def _restart(self, member: QuorumMember) -> None:
        if member.node is None:
            member.start(self.bootstrap)

    def _stop_in_order(self, member: QuorumMember) -> None:
        node = member.node
        if node is None or member.paused_until_us > self.now_us:
            return
        member.do(node.shutdown(member.now))
        self.after(member, SECOND_US // 2, lambda: self.kill(member))

    def _cut(self, member: QuorumMember, *, both_ways: bool) -> None:
        others = [other for other in self.members.values() if other is not member]
        chosen = [other for other in others if self.random.random() < 0.6] or others
        cuts = {(member.node_id, other.node_id) for other in chosen}
        back = {(other.node_id, member.node_id) for other in chosen}
        if both_ways:
            cuts |= back
        elif self.random.random() < 0.5:
            cuts = back
        self.cuts |= cuts
        self._push(self.random.randrange(8 * SECOND_US), lambda: self.cuts.difference_update(cuts))

    def _lose_disk(self, member: QuorumMember, restart_us: int | None = None) -> None:
        """Replace a disk, if the voters of every leader can spare it."""
        if not self.profile.kraft_version or not member.has_controller_role:
            return
        for other in self.members.values():
            voters = other.disk.history().voters
            lost = [voter for voter in voters.voters if voter.key != self.members[voter.key.node_id].key]
            is_voter = voters.find_node(member.node_id) is not None
            if lost or (is_voter and len(voters.voters) < 3):
                return
        self.kill(member, restart_us=restart_us)
        member.disk = QuorumDisk(self._new_directory(), VoterSet(()), 0)
        self._add_disk(member)

    def _change_voters(self, kind: str) -> None:
        """An operator adds a controller, or removes a voter."""
        leaders = [
            member for member in self.members.values() if member.is_leader and member.paused_until_us <= self.now_us
        ]
        if not leaders:
            return
        leader = self.random.choice(leaders)
        node = leader.node
        assert node is not None, "it leads"
        voters = node.voters
        request: Request
        if kind == "add":
            others = [
                member
                for member in self.members.values()
                if member.has_controller_role and voters.find_node(member.node_id) is None
            ]
            if not others:
                return
            other = self.random.choice(others)
            if self.random.random() < _EMPTY_SHARE:
                self._lose_disk(other, restart_us=between(self.random, 0, 1_000))
            endpoint = VoterEndpoint(LISTENER, "host", other.port)
            request = AddVoterRequest(cluster_id=CLUSTER_ID, voter=other.key, endpoints=(endpoint,), timeout_ms=5_000)
        else:
            lost = [voter for voter in voters.voters if voter.key != self.members[voter.key.node_id].key]
            if len(voters.voters) < 3 and not lost:
                return
            own = voters.find(leader.key)
            chosen = self.random.choice(lost or voters.voters)
            voter = own if own is not None and self.random.random() < 0.3 else chosen
            request = RemoveVoterRequest(cluster_id=CLUSTER_ID, voter=voter.key, timeout_ms=5_000)
        leader.do(node.on_request(leader.now, request, self._on_changed))

    def _on_changed(self, response: Response) -> None:
        self.notes.append(f"{self.now_us} voters: {ErrorCode(response.error).name}")
