"""One member of a simulated quorum: the raft core with a driver on virtual time, and a disk that outlives its process.

Requests of a simulated quorum that are under way, and when their senders give them up.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Protocol

from msgspec.structs import replace

from esp.model.errors import ErrorCode
from esp.model.ids import NO_NODE, NodeId
from esp.model.now import Now
from esp.ports.network import Address
from esp.raft import effects
from esp.raft.effects import Effect, Peer
from esp.raft.member import Member
from esp.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from esp.raft.node import RaftNode
from esp.raft.roles import Role
from esp.raft.settings import QuorumSettings
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterEndpoint, VoterKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.env import SeededRandom
from esp.simulation.quorum_tier.checks import QuorumChecks
from esp.simulation.quorum_tier.log import QuorumDisk, StoredSnapshot
from esp.simulation.streams import between


class Call:
    """A request on its way. Answers come late as well, or twice: nothing but the core itself holds them back (LOG-5)."""

    __slots__ = ("_peer", "has_ended", "request", "sender")

    def __init__(self, sender: "QuorumMember", peer: NodeId, request: Request) -> None:
        self.sender = sender
        self.request = request
        self._peer = peer
        self.has_ended = False

    def end(self, response: Response) -> None:
        """An answer has come."""
        node = self.sender.node
        if node is not None:
            self.has_ended = True
            self.sender.do(node.on_response(self.sender.now, self._peer, self.request, response))

    def fail(self, *, refused: bool) -> None:
        """No answer will come."""
        if self.has_ended:
            return
        node = self.sender.node
        if node is not None:
            self.has_ended = True
            self.sender.do(node.on_send_failed(self.sender.now, self._peer, self.request, refused=refused))


class CallTimeouts:
    """The times at which one member gives up its calls.

    Nearly all calls end long before, so that all with the same time-out share one event, which comes for the oldest that has not ended.
    """

    __slots__ = ("_member", "_queues", "_world")

    def __init__(self, world: "QuorumWorld", member: "QuorumMember") -> None:
        self._world = world
        self._member = member
        self._queues: dict[int, deque[tuple[int, Call]]] = {}
        """By time-out: calls with their deadlines, the oldest first."""

    def add(self, call: Call, timeout_us: int) -> None:
        """The member has made a call."""
        queue = self._queues.get(timeout_us)
        if queue is None:
            queue = self._queues[timeout_us] = deque()
        if not queue:
            self._world.after(self._member, timeout_us, partial(self._expire, queue))
        queue.append((self._world.now_us + timeout_us, call))

    def clear(self) -> None:
        """The member's process has ended; its events are dropped."""
        self._queues = {}

    def _expire(self, queue: deque[tuple[int, Call]]) -> None:
        world, member = self._world, self._member
        life = member.incarnation
        while queue and (queue[0][1].has_ended or queue[0][0] <= world.now_us):
            # Taken out last: what the member sends meanwhile finds the queue's event armed.
            queue[0][1].fail(refused=False)
            queue.popleft()
        if queue and member.incarnation == life:
            world.after(member, queue[0][0] - world.now_us, partial(self._expire, queue))


CLUSTER_ID = "simulated-cluster-id"
LISTENER = "CONTROLLER"
_SNAPSHOT_PIECE_BYTES = 200


class QuorumWorld(Protocol):
    """The world around a member, as far as it needs it."""

    now_us: int
    checks: QuorumChecks
    disks: dict[VoterKey, QuorumDisk]

    def after(self, member: "QuorumMember", delay_us: int, action: Callable[[], None]) -> None:
        """Call ``action`` later, unless the member's process has ended by then."""

    def send(self, sender: "QuorumMember", peer: Peer, request: Request) -> None:
        """Carry a request, and its answer back."""

    def on_moment(self, member: "QuorumMember", moment: str) -> None:
        """Something happened at which a fault hurts most: see :mod:`esp.simulation.quorum_tier.cluster`."""


class QuorumMember:
    """One node; see :class:`esp.raft.node.RaftNode`.

    Args:
        world: the world around it.
        node_id: its id, which is also its port.
        has_controller_role: whether it may vote.
        disk: its disk.
        random: the source of its randomness.
        settings: timing.
    """

    def __init__(
        self,
        world: QuorumWorld,
        node_id: NodeId,
        *,
        has_controller_role: bool,
        disk: QuorumDisk,
        random: Random,
        settings: QuorumSettings,
    ) -> None:
        self.world = world
        self.node_id = node_id
        self.has_controller_role = has_controller_role
        self.disk = disk
        self.random = random
        self.settings = settings
        self.incarnation = 0
        """Changes whenever the process ends."""
        self.node: RaftNode | None = None
        self.port = node_id + 1000
        self.paused_until_us = 0
        self.applied = 0
        self.digest = 0
        self.next_tick_us: int | None = None
        self.flush_us_max = 8_000
        self._is_flushing = False
        self._parts: dict[SnapshotId, bytearray] = {}
        self.leads_since_us = 0
        """The time at which it last became leader."""
        self._announced: int | None = None
        self.timeouts = CallTimeouts(world, self)
        self._handlers: Mapping[type[Effect], Callable[[Any], None]] = {
            effects.Send: self._send,
            effects.Reply: self._reply,
            effects.Append: self._append,
            effects.Flush: lambda _effect: self._flush(),
            effects.Commit: lambda effect: self._commit(effect.high_watermark),
            effects.Persist: self._persist,
            effects.Truncate: self._truncate,
            effects.WriteSnapshotChunk: self._write_snapshot_chunk,
            effects.FinishSnapshot: self._finish_snapshot,
            effects.Fatal: self._fail,
        }

    @property
    def key(self) -> VoterKey:
        """Its id, with that of its disk."""
        return VoterKey(self.node_id, self.disk.directory_id)

    @property
    def address(self) -> Address:
        """The address at which it listens."""
        return Address("host", self.port)

    @property
    def now(self) -> Now:
        """The time."""
        return Now(self.world.now_us, 1_795_000_000_000 + self.world.now_us // 1000)

    def start(self, bootstrap: Sequence[Address]) -> None:
        """Begin a process on the disk."""
        disk = self.disk
        endpoints = (VoterEndpoint(LISTENER, "host", self.port),) if self.has_controller_role else ()
        self.node = RaftNode(
            Member(
                self.key,
                cluster_id=CLUSTER_ID,
                has_controller_role=self.has_controller_role,
                endpoints=endpoints,
                listener_name=LISTENER,
                voters=disk.history(),
                bootstrap=bootstrap,
                quorum_state=disk.quorum_state,
                log=disk.outline(),
                settings=self.settings,
                random=SeededRandom(self.random),
                committed_offset=disk.committed_offset if self.has_controller_role else 0,
            )
        )
        snapshot = disk.snapshot
        self.applied = 0 if snapshot is None else snapshot.snapshot_id.end_offset
        self.digest = 0 if snapshot is None else snapshot.digest
        self.do(self.node.start(self.now))

    def stop(self) -> None:
        """The process is gone, whatever it was doing."""
        self.node = None
        self.incarnation += 1
        self.next_tick_us = None
        self._is_flushing = False
        self._parts.clear()
        self._announced = None
        self.timeouts.clear()

    def do(self, todo: list[Effect]) -> None:
        """Do what the core asks for, and arm its timer."""
        if todo:
            cuts = self.disk.cuts
            for effect in todo:
                handler = self._handlers.get(type(effect))
                if handler is not None and self.node is not None:
                    handler(effect)
            if self.node is not None and self.disk.cuts != cuts:
                self.world.checks.on_cut(self.key, self.node.voters, self.disk)
        node = self.node
        if node is None:
            return
        if node.role is Role.LEADER and self._announced != node.epoch:
            self._announced = node.epoch
            self.leads_since_us = self.world.now_us
            self.world.checks.on_leader(self.key, self.incarnation, node.epoch, self.disk)
            self.world.on_moment(self, "elected")
        self._arm(node)

    def _arm(self, node: RaftNode) -> None:
        deadline_us = node.next_deadline_us
        if deadline_us is not None and (self.next_tick_us is None or deadline_us < self.next_tick_us):
            self.next_tick_us = deadline_us
            self.world.after(self, max(0, deadline_us - self.world.now_us), self._maybe_tick)

    def _maybe_tick(self) -> None:
        """The timer has come. Most moments were put off meanwhile, and the core is called only for what is due."""
        now_us, node = self.world.now_us, self.node
        if node is None or self.next_tick_us is None or now_us < self.next_tick_us:
            return
        self.next_tick_us = None
        deadline_us = node.next_deadline_us
        if deadline_us is not None and deadline_us > now_us:
            self._arm(node)
        else:
            self.do(node.on_tick(self.now))

    def _send(self, effect: effects.Send) -> None:
        self.world.send(self, effect.peer, effect.request)

    def _reply(self, effect: effects.Reply) -> None:
        token = effect.token
        assert callable(token), "tokens are the ways back"
        token(self._fill(effect))

    def _persist(self, effect: effects.Persist) -> None:
        self.world.checks.on_persist(self.key, self.disk.quorum_state, effect.state)
        self.disk.quorum_state = effect.state

    def _truncate(self, effect: effects.Truncate) -> None:
        if effect.end_offset < max(self.applied, self.disk.committed_offset if self.has_controller_role else 0):
            raise ViolationError("INV-NO-TRUNC-BELOW-HW", f"node {self.node_id}", f"cut to {effect.end_offset}")
        self.disk.truncate_to(effect.end_offset)

    def _write_snapshot_chunk(self, effect: effects.WriteSnapshotChunk) -> None:
        part = self._parts.setdefault(effect.snapshot_id, bytearray())
        del part[effect.position :]
        part += effect.data

    def _finish_snapshot(self, effect: effects.FinishSnapshot) -> None:
        self.world.after(self, self.random.randrange(5_000), partial(self._install, effect.snapshot_id))

    def _fail(self, effect: effects.Fatal) -> None:
        if self.world.checks.durability_is_owed:
            raise ViolationError("INV-NO-CRASH", f"node {self.node_id}", effect.reason)
        self.stop()

    def _append(self, effect: effects.Append) -> None:
        world = self.world
        if effect.is_fetched:
            self.disk.append(effect.batch, effect.header)
            return
        if effect.header.is_control and self._check_voters(effect):
            world.on_moment(self, "voters")
        self.disk.append(effect.batch, effect.header)
        world.checks.on_led_append(self.key, effect.header.leader_epoch, self.disk.end_offset, world.now_us)

    def _fill(self, reply: effects.Reply) -> Response:
        response = reply.response
        node = self.node
        if isinstance(response, FetchResponse) and node is not None and node.role is Role.LEADER:
            told = response.high_watermark
            if told is not None and told >= 0 and response.error is ErrorCode.none:
                self.world.checks.on_told(self.key, node.epoch, told, self.disk)
        if isinstance(response, FetchResponse) and isinstance(reply.read, effects.ReadRecords):
            return replace(response, records=self.disk.read(*reply.read))
        if isinstance(response, FetchSnapshotResponse) and isinstance(reply.read, effects.ReadSnapshot):
            snapshot = self.disk.snapshot
            if snapshot is None or snapshot.snapshot_id != reply.read.snapshot_id:
                return replace(response, error=ErrorCode.snapshot_not_found)
            data = snapshot.encode()
            position = reply.read.position
            piece = data[position : position + _SNAPSHOT_PIECE_BYTES]
            return replace(response, size=len(data), position=position, data=piece)
        return response

    def _flush(self) -> None:
        if self._is_flushing:
            return
        self._is_flushing = True
        end_offset, cuts = self.disk.end_offset, self.disk.cuts
        delay_us = between(self.random, 100, self.flush_us_max - 1)
        self.world.after(self, delay_us, partial(self._on_synced, end_offset, cuts))

    def _on_synced(self, end_offset: int, cuts: int) -> None:
        self._is_flushing = False
        disk = self.disk
        if cuts == disk.cuts:
            disk.synced_offset = max(disk.synced_offset, end_offset)
        if disk.synced_offset < disk.end_offset:
            self._flush()
        if self.node is not None:
            self.do(self.node.on_flushed(self.now, disk.synced_offset))

    def _commit(self, high_watermark: int) -> None:
        node = self.node
        assert node is not None, "only a process commits"
        checks = self.world.checks
        if node.role is Role.LEADER:
            checks.on_told(self.key, node.epoch, high_watermark, self.disk)
            checks.on_evidence(self.key, high_watermark, node.voters, self.world.disks)
            self.world.on_moment(self, "committed")
        self.digest = checks.on_commit(self.key, self.applied, high_watermark, self.digest, self.disk)
        self.applied = high_watermark
        self.disk.committed_offset = max(self.disk.committed_offset, min(high_watermark, self.disk.synced_offset))

    def _check_voters(self, effect: effects.Append) -> bool:
        before = self.disk.history()
        after = self.disk.history()
        after.replay(effect.batch, effect.header)
        if before.voters != after.voters:
            if before.end_offset > self.applied:
                raise ViolationError("INV-RAFT-VOTERS", f"node {self.node_id}", "another is not committed")
            last = self.disk.find_batch_before(self.applied)
            epoch = self.disk.start_epoch if last is None else last.header.leader_epoch
            has_committed = epoch == effect.header.leader_epoch
            checks, epoch = self.world.checks, effect.header.leader_epoch
            checks.on_voters(self.key, before.voters, after.voters, has_committed=has_committed)
            for added in sorted(after.voters.keys() - before.voters.keys()):
                checks.on_added(self.key, epoch, added, self.world.disks[added].end_offset, self.world.now_us)
        return before.voters != after.voters

    def _install(self, snapshot_id: SnapshotId) -> None:
        node = self.node
        assert node is not None, "only a process installs"
        try:
            snapshot = StoredSnapshot.decode(bytes(self._parts.pop(snapshot_id)))
        except (ValueError, KeyError):
            self.do(node.on_snapshot_refused(self.now, snapshot_id))
            return
        self.world.checks.on_snapshot(self.key, snapshot_id.end_offset, snapshot.digest)
        self.disk.restart_at(snapshot)
        self.applied, self.digest = snapshot_id.end_offset, snapshot.digest
        self.do(node.on_snapshot_installed(self.now, snapshot_id, snapshot.voters, snapshot.kraft_version))

    def write_snapshot(self, delay_us: int = 0) -> None:
        """Write a snapshot of what is committed now, and remove the log below it when it is written.

        Args:
            delay_us: the time that the writing takes. The member may have installed a newer snapshot then.
        """
        node = self.node
        last = self.disk.find_batch_before(self.applied)
        if (
            node is None
            or last is None
            or self.applied == self.disk.start_offset
            or self.disk.synced_offset < self.applied
        ):
            return
        history = self.disk.history()
        history.truncate_to(self.applied)
        snapshot_id = SnapshotId(self.applied, last.header.leader_epoch)
        snapshot = StoredSnapshot(snapshot_id, self.digest, history.voters, history.kraft_version)
        if delay_us:
            self.world.after(self, delay_us, partial(self._end_snapshot, snapshot))
        else:
            self._end_snapshot(snapshot)

    def _end_snapshot(self, snapshot: StoredSnapshot) -> None:
        node, disk = self.node, self.disk
        assert node is not None, "only a process writes"
        if disk.start_offset < snapshot.snapshot_id.end_offset:
            disk.drop_before(snapshot)
        self.do(node.on_snapshot_written(self.now, snapshot.snapshot_id, disk.start_offset))

    @property
    def is_leader(self) -> bool:
        """True if it is alive and leads."""
        return self.node is not None and self.node.role is Role.LEADER

    @property
    def followed(self) -> NodeId:
        """The leader that it follows."""
        return NO_NODE if self.node is None else self.node.leader_id
