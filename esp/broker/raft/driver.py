"""Runs the raft core (:mod:`esp.raft.node`) on the metadata log: the shell with the files, the clock, the connections and the loop.

Effects are done in their order; a step that must leave the loop (cutting the log while a thread works on its directory, taking over a
snapshot) holds up those behind it, and everything that arrives meanwhile. One flush serves all batches that were appended before it began
(SYNC-2), and only its completion counts (RAFT-11, RAFT-12, SYNC-3). When the effects of a call are done, and not before, the rest of the
node is notified: the state machine of commits, the controller of the leader, waiting coroutines of their results. All of them may propose
in turn. Coroutines of the active controller wait here until the records that their answers rest on are committed.

Requests of the quorum get their answers here, with the records and pieces of snapshots that belong to them.

An error of the disk or in the core ends the node (RAFT-16): a member is never half alive.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from esp.broker.deadline_timer import DeadlineTimer
from esp.broker.raft.applier import MetadataApplier, StateMachine
from esp.broker.raft.config import RaftConfig
from esp.broker.raft.files import RaftFiles
from esp.broker.raft.peers import QuorumPeers
from esp.broker.raft.snapshot_keeper import SnapshotKeeper
from esp.broker.raft.start import OTHER_DISK_REMEDY, RecoveredMember, find_other_disk, read_member
from esp.broker.tasks import Tasks
from esp.broker.waiting import time_limit
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE, LeaderEpoch, NodeId
from esp.model.now import Now
from esp.ports.env import Env
from esp.ports.network import Address
from esp.raft import effects
from esp.raft.effects import Effect, ReadRecords, ReadSnapshot, Reply
from esp.raft.leading import QuorumDescription, ReplicaDescription
from esp.raft.member import LAST_EPOCH, LeaderContact
from esp.raft.messages import FetchResponse, FetchSnapshotResponse, Request, Response
from esp.raft.node import RaftNode
from esp.raft.roles import Role
from esp.raft.snapshot import SnapshotId
from esp.raft.voters import VoterSet
from esp.storage.log import Log

_logger = logging.getLogger(__name__)


class RaftReplies:
    """Does the core's replies; a token is the future that waits for the answer.

    Args:
        node: the core.
        files: where records and snapshots are read.
        run: starts a coroutine beside everything else.
    """

    def __init__(self, node: RaftNode, files: RaftFiles, run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._node = node
        self._files = files
        self._run = run

    def reply(self, reply: Reply) -> None:
        """Answer now, or once the disk has worked."""
        response, read = reply.response, reply.read
        if isinstance(read, ReadRecords):
            assert isinstance(response, FetchResponse)
            records = self._files.read_records(read)
            if records is None:
                self._run(self._reply_cold(reply.token, response, read))
                return
            response = replace(response, records=records)
        elif isinstance(read, ReadSnapshot):
            assert isinstance(response, FetchSnapshotResponse)
            self._run(self._reply_with_piece(reply.token, response, read))
            return
        _answer(reply.token, response)

    async def _reply_cold(self, token: object, response: FetchResponse, read: ReadRecords) -> None:
        """The log may have been cut while it was read, if this node leads no more: only a leader's records count."""
        try:
            records = await self._files.read_records_cold(read)
        except ApiError:
            if self._still_leads(response):
                raise
            records = b""
        if self._still_leads(response):
            _answer(token, replace(response, records=records))
        else:
            node = self._node
            refusal = FetchResponse(
                error=ErrorCode.not_leader_or_follower,
                leader_epoch=node.epoch,
                leader_id=node.leader_id,
                leader_endpoints=node.leader_endpoints,
            )
            _answer(token, refusal)

    async def _reply_with_piece(self, token: object, response: FetchSnapshotResponse, read: ReadSnapshot) -> None:
        _answer(token, await self._files.read_snapshot(response, read))

    def _still_leads(self, response: Response) -> bool:
        return self._node.role is Role.LEADER and self._node.epoch == response.leader_epoch


def _log_leader(epoch: LeaderEpoch, leader_id: NodeId, address: Address | None) -> None:
    leader = "no leader is known" if leader_id == NO_NODE else f"{leader_id} at {address} leads"
    _logger.info("quorum epoch %d: %s", epoch, leader)
    if epoch == LAST_EPOCH:
        _logger.error(
            "quorum epoch %d is the last one: no controller can be elected before all nodes are set back", epoch
        )


def _answer(token: object, response: Response) -> None:
    assert isinstance(token, asyncio.Future)
    if not token.done():
        token.set_result(response)


class CommitWaiters:
    """Waiters by offset, which rises from one to the next."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def wait(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed.

        Raises:
            ApiError: NOT_CONTROLLER: leadership was lost first.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((offset, future))
        await future

    def on_commit(self, offset: int) -> None:
        """Everything below ``offset`` is committed."""
        while self._waiting and self._waiting[0][0] <= offset:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)

    def on_leadership_lost(self) -> None:
        """Proposals may be committed by another leader or not: this node will not know (PROMISE-7)."""
        waiting, self._waiting = self._waiting, deque()
        for _, future in waiting:
            if not future.done():
                future.set_exception(ApiError(ErrorCode.not_controller))


FAREWELL_MS: Final = 1000
"""The time for which a clean shutdown waits for its proposals to be committed, and then for the voters to hear that it leads no more."""

_FAREWELL_POLL_US: Final = 5_000

Answer = TypeVar("Answer", bound=Response)
Step = Callable[[Now], list[Effect]]
Pause = Coroutine[Any, Any, None]


class RaftDriver:
    """One member of the quorum at work; made by :meth:`open`.

    Args:
        env: the outside.
        config: what it must know of its node.
        log: the metadata log.
        member: what was found on the disk.
        state_machine: told of what is committed.
        directories_lock: the node's, for all its data directories (:class:`~esp.broker.node_directories.NodeDirectories`).
    """

    def __init__(
        self,
        env: Env,
        config: RaftConfig,
        log: Log,
        member: RecoveredMember,
        state_machine: StateMachine,
        directories_lock: asyncio.Lock,
    ) -> None:
        self.config = config
        self.files = RaftFiles(env, log, member.snapshots, directories_lock, self._on_flushed)
        self.log: Final = log
        """The metadata log."""
        self._env = env
        self._state_machine = state_machine
        self._node = member.node
        self._initial = member.initial
        self._tasks = Tasks(env.host)
        self._peers = QuorumPeers(
            env,
            self._tasks,
            config.local.node_id,
            config.settings.controller_quorum_request_timeout_ms,
            self,
            self._on_gone,
            listener=config.listener,
            terms=config.settings.controller_terms,
        )
        self._replies = RaftReplies(member.node, self.files, self._start_task)
        self._applier = MetadataApplier(log, state_machine, self._start_task, self._settle)
        self._keeper = SnapshotKeeper(env, config, log, member.snapshots, member.voters)
        self._steps: deque[Step] = deque()
        self._effects: deque[Effect] = deque()
        self._is_stepping = True  # until the start
        self._has_started = self._has_ended = False
        self._snapshot_lock = asyncio.Lock()
        """Held while a snapshot is written."""
        self._timer = DeadlineTimer(
            env.clock, lambda: self._node.next_deadline_us, lambda: self._step(self._node.on_tick)
        )
        self._active_epoch: LeaderEpoch | None = None
        self._leadership_changed = False
        self._on_leadership: list[Callable[[], None]] = []
        self._waiters = CommitWaiters()

    @classmethod
    async def open(
        cls, env: Env, log: Log, config: RaftConfig, state_machine: StateMachine, directories_lock: asyncio.Lock
    ) -> "RaftDriver":
        """Read the recovered log and what belongs to it. Nothing is sent or applied before :meth:`start`. The arguments are the class's.

        Raises:
            OperatorError: a file is missing or broken, or this node cannot be a member of the quorum.
        """
        return cls(env, config, log, await read_member(env, log, config), state_machine, directories_lock)

    # --- what others see -----------------------------------------------------------------------------------------------------------

    @property
    def epoch(self) -> LeaderEpoch:
        """The newest epoch that this member knows of."""
        return self._node.epoch

    @property
    def leader(self) -> NodeId | None:
        """The leader of the quorum, as far as this node knows."""
        return None if self._node.leader_id == NO_NODE else self._node.leader_id

    @property
    def leader_contact(self) -> LeaderContact | None:
        """The leader that has answered this node last, and the time of its answer; None if none has since the start."""
        return self._node.leader_contact

    @property
    def leader_address(self) -> Address | None:
        """The address of the leader's controller listener, as far as is known."""
        return self._node.leader_address

    @property
    def is_leader(self) -> bool:
        """True if this node leads the quorum; it may not be the active controller yet."""
        return self._node.role is Role.LEADER

    @property
    def is_active(self) -> bool:
        """True if this node is the active controller: it leads, and has applied everything before its epoch (RAFT-22)."""
        return self.is_leader and self._node.epoch == self._active_epoch

    @property
    def is_stepping(self) -> bool:
        """True if the core has decided things that are not done yet, or has not started."""
        return self._is_stepping

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; 0 while that is unknown."""
        return self._node.high_watermark or 0

    @property
    def kraft_version(self) -> int:
        """0: the voters stand in the settings; 1: in the metadata log (KIP-853)."""
        return self._node.kraft_version

    @property
    def next_offset(self) -> int:
        """The offset that the next record gets."""
        return self._node.log_end_offset

    @property
    def has_followers(self) -> bool:
        """True if this node leads, and another member has its log: another voter, or an observer that has fetched from it."""
        description = self.describe(self.now())
        return description is not None and len(description.voters) + len(description.observers) > 1

    @property
    def voters(self) -> VoterSet:
        """The newest voters, committed or not (RAFT-40)."""
        return self._node.voters

    def on_leadership(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever the epoch, the leader, its address or :attr:`is_active` has changed."""
        self._on_leadership.append(callback)

    async def start(self) -> None:
        """Take part in the quorum, once the snapshot that the state begins with is loaded; what comes before that waits."""
        if self._initial is not None:
            await self._applier.restart_at(self._initial.snapshot_id, self._initial.contents.batches)
            self._initial = None
        self._has_started = True
        self._steps.appendleft(self._node.start)
        self._run_steps()

    async def caught_up(self) -> None:
        """Return once everything is applied, and published, that was committed when this node first heard of a high watermark."""
        await self._applier.caught_up()
        problem = find_other_disk(self.config.local, self.log.path, self._node.voters, self._node.kraft_version)
        if problem is not None:
            _logger.error("%s, so it only observes; %s", problem, OTHER_DISK_REMEDY)

    def propose(self, values: Sequence[bytes]) -> None:
        """Append one batch of records. Only the active controller does, through its :class:`~esp.broker.raft.loader.MetadataLoader`."""
        assert self.is_active, "only the active controller proposes"
        assert not self._is_stepping, "proposals are made when the effects of a step are done"
        self._step(lambda now: self._node.propose(now, values))

    async def committed(self, offset: int) -> None:
        """Return when everything below ``offset`` is committed, and published.

        Raises:
            ApiError: NOT_CONTROLLER: this node is not the active controller, or was not any more before that. What it proposed may come to
                be committed all the same (PROMISE-7).
        """
        if not self.is_active:
            raise ApiError(ErrorCode.not_controller)
        if self._applier.applied_offset < offset:
            await self._waiters.wait(offset)

    async def request(self, request: Request, expected: type[Answer]) -> Answer:
        """Let the core answer another member, or a tool; ``expected`` is the kind of answer to that kind of request."""
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._step(lambda now: self._node.on_request(now, request, future))
        answer = await future
        assert isinstance(answer, expected)
        return answer

    def now(self) -> Now:
        """The node's clocks."""
        return Now(self._env.clock.monotonic_us(), self._env.clock.wall_ms())

    def describe(self, now: Now) -> QuorumDescription | None:
        """The quorum as its leader sees it; None if another node leads."""
        return self._node.describe(now)

    def describe_from_here(self) -> QuorumDescription:
        """The quorum as this node knows it without an answer of its leader: of the other members only that they are voters."""
        node, local = self._node, self.config.local
        is_voter = self.config.can_vote and node.voters.find(local) is not None
        own = ReplicaDescription(local, node.log_end_offset, None, None)
        others = (each.key for each in node.voters.voters if not is_voter or each.key.node_id != local.node_id)
        voters = [ReplicaDescription(key, -1, None, None) for key in others]
        return QuorumDescription(
            node.leader_id,
            node.epoch,
            node.high_watermark,
            node.voters,
            tuple(sorted([*voters, own] if is_voter else voters, key=lambda each: each.key)),
            () if is_voter else (own,),
        )

    async def close(self) -> None:
        """Stop in order: commit what was proposed, hand over leadership, end all connections. The log is closed by its directory.

        Nothing happens to a member that has not been started.
        """
        if not self._has_started:
            return
        if self.is_active:
            try:
                async with time_limit(self._env.clock, FAREWELL_MS):
                    await self.committed(self.next_offset)
            except (ApiError, TimeoutError):
                _logger.warning("the controller's last proposals may not be committed")
        self._step(self._node.shutdown)
        deadline_us = self._env.clock.monotonic_us() + FAREWELL_MS * 1000
        while not self._node.has_ended and self._env.clock.monotonic_us() < deadline_us:
            await self._env.clock.sleep_us(_FAREWELL_POLL_US)
        async with self._snapshot_lock:  # a thread does not stop with the task that waits for it
            self._has_ended = True
        self._peers.close()
        self._timer.cancel()
        await self._tasks.stop()
        await self.files.finish_flush()

    # --- the core's inputs ---------------------------------------------------------------------------------------------------------

    def on_response(self, peer: NodeId, request: Request, response: Response) -> None:
        """See :class:`~esp.broker.raft.peers.OnAnswer`."""
        if isinstance(response, FetchResponse) and response.error is ErrorCode.none and response.high_watermark:
            self._applier.expect(response.high_watermark)
        self._step(lambda now: self._node.on_response(now, peer, request, response))

    def on_send_failed(self, peer: NodeId, request: Request, *, refused: bool) -> None:
        """See :class:`~esp.broker.raft.peers.OnAnswer`."""
        self._step(lambda now: self._node.on_send_failed(now, peer, request, refused=refused))

    def _on_gone(self, address: Address) -> None:
        if address == self._node.leader_address and not self.is_leader:
            _logger.info("the leader's address %s refuses connections", address)
            self._step(self._node.on_leader_gone)

    def _on_flushed(self, offset: int) -> None:
        self._step(lambda now: self._node.on_flushed(now, offset))

    def _step(self, step: Step) -> None:
        """Let the core take a step, and do what it asks for; later, if an earlier step is not done yet."""
        if self._has_ended:
            return
        self._steps.append(step)
        if not self._is_stepping:
            self._run_steps()

    def _run_steps(self) -> None:
        self._is_stepping = True
        try:
            while self._effects or self._steps:
                while self._effects:
                    pause = self._do(self._effects.popleft())
                    if pause is not None:
                        self._start_task(self._resume_after(pause))
                        return
                if self._steps:
                    self._effects.extend(self._steps.popleft()(self.now()))
        except Exception as error:  # RAFT-16: state is in doubt
            self.files.fail(error)
        self._is_stepping = False
        self._settle()

    async def _resume_after(self, pause: Pause) -> None:
        await pause
        self._run_steps()

    def _settle(self) -> None:
        """Notify the other parts of the node of the results of the steps."""
        if self._is_stepping or self._has_ended:
            return
        node = self._node
        if self._active_epoch is not None and not self.is_active:
            self._active_epoch = None
            self._leadership_changed = True
            self._state_machine.roll_back()
            self._waiters.on_leadership_lost()
        high_watermark = node.high_watermark
        if high_watermark is not None:
            self._apply(high_watermark)
        if self._leadership_changed:
            self._leadership_changed = False
            for callback in self._on_leadership:
                callback()
        self._timer.update()

    def _apply(self, high_watermark: int) -> None:
        node, applier = self._node, self._applier
        start = node.epoch_start_offset
        has_committed = node.role is Role.LEADER and start is not None and start < high_watermark
        if has_committed:
            applier.expect(high_watermark)
        try:
            applier.apply(high_watermark, is_active=self.is_active)
        except Exception as error:
            self.files.fail(error)
        applied = applier.applied_offset
        if self._active_epoch is None and has_committed and applied == high_watermark:
            self._active_epoch = node.epoch
            self._leadership_changed = True
            self._env.maybe("a controller takes over")
        self._waiters.on_commit(applied)
        if not self._snapshot_lock.locked() and self._keeper.is_due(applier.applied_bytes):
            self._begin_snapshot()

    # --- effects -------------------------------------------------------------------------------------------------------------------

    def _do(self, effect: Effect) -> Pause | None:
        """Do what the core asks for; what takes longer is returned, to be awaited before the next effect."""
        match effect:
            case effects.Send(peer, request):
                self._peers.send(peer, request)
            case effects.Reply():
                self._replies.reply(effect)
            case effects.Append():
                self.files.append(effect)
                if not effect.is_fetched:
                    self._applier.count_own(effect.header.size)
            case effects.Flush():
                self.files.begin_flush()
            case effects.Commit(high_watermark):
                self.log.high_watermark = high_watermark
            case effects.Persist(state):
                self.files.persist(state)
            case effects.BeginEpoch(epoch):
                self.log.begin_epoch(epoch)  # on disk it stands with the flush of its first batch
            case effects.LeaderChanged(epoch, leader_id, address):
                self._leadership_changed = True
                _log_leader(epoch, leader_id, address)
            case effects.Truncate(end_offset):
                return self.files.truncate(end_offset)
            case effects.WriteSnapshotChunk(snapshot_id, position, data):
                self.files.write_chunk(snapshot_id, position, data)
            case effects.FinishSnapshot(snapshot_id):
                return self._install(snapshot_id)
            case effects.Fatal(reason):
                self._env.host.fatal(f"the metadata quorum: {reason}")
        return None

    async def _install(self, snapshot_id: SnapshotId) -> None:
        contents = await self.files.install(snapshot_id)
        node = self._node
        if contents is None:
            self._steps.appendleft(lambda now: node.on_snapshot_refused(now, snapshot_id))
            return
        voters, kraft_version = contents.voters, contents.kraft_version
        if voters is None:  # static ones, which no record names
            voters, kraft_version = node.voters, node.kraft_version
        self._keeper.begin(self._applier.applied_bytes)
        await self._applier.restart_at(snapshot_id, contents.batches)
        self._steps.appendleft(lambda now: node.on_snapshot_installed(now, snapshot_id, voters, kraft_version))

    def _begin_snapshot(self) -> None:
        image = self._state_machine.snapshot_source()
        if image is not None and self._keeper.is_news(image):
            self._keeper.begin(self._applier.applied_bytes)
            self._start_task(self._write_snapshot(image))

    async def _write_snapshot(self, image: ClusterImage) -> None:
        async with self._snapshot_lock:
            if (snapshot_id := await self._keeper.write(image)) is None:
                return
            async with self.files.cutting():
                self._keeper.clean_blocking()
        self._step(lambda now: self._node.on_snapshot_written(now, snapshot_id, self.log.log_start_offset))

    def _start_task(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(self._guard(coroutine), name="metadata log")

    async def _guard(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except Exception as error:  # RAFT-16
            self.files.fail(error)
