"""One simulated broker with one replica: the cores of :mod:`esp.replication` and what drives them, without protocol and files."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.replication.fetch_check import check_leader_epoch
from esp.replication.isr_changes import IsrAnswer, IsrChange
from esp.replication.partition_follower import (
    CommittedDataLossError,
    FetchAnswer,
    FetchPosition,
    Next,
    PartitionFollower,
    is_still_firm,
)
from esp.replication.partition_leader import ALL_REPLICAS, PartitionLeader, must_flush_to_lead
from esp.simulation.partition_tier.controller import Image
from esp.simulation.partition_tier.memory_log import MemoryLog
from esp.simulation.partition_tier.profile import PartitionProfile

FETCH_WAIT_US: Final = 500_000
FETCH_TIMEOUT_US: Final = 1_500_000
BACK_OFF_US: Final = 200_000
ALTER_TIMEOUT_US: Final = 700_000
FLUSH_US: Final = 5_000
HEARTBEAT_US: Final = 500_000


class Asked(NamedTuple):
    """A follower's fetch."""

    replica: NodeId
    incarnation: int
    broker_epoch: int
    position: FetchPosition
    fetch_id: int


class NodeWorld(Protocol):
    """The outside of a simulated broker."""

    random: Random
    profile: PartitionProfile
    now_us: int
    lag_time_max_us: int

    def after(self, node: "PartitionNode", delay_us: int, action: Callable[..., None], *arguments: Any) -> None:
        """A timer of a node: it dies with the process."""

    def send(self, sender: "PartitionNode", receiver: NodeId, name: str, *arguments: Any) -> None:
        """A request to another node: to the process that runs there now."""

    def answer(self, sender: "PartitionNode", asked: Asked, name: str, *arguments: Any) -> None:
        """An answer to a follower: to the process that asked."""

    def ask_controller(self, node: "PartitionNode", name: str, *arguments: Any) -> None:
        """A request to the controller: it arrives also when the process that sent it is gone."""

    def answer_client(self, node: "PartitionNode", request_id: int, error: ErrorCode, base_offset: int) -> None:
        """An answer to the producer."""

    def carry(self, records: bytes) -> bytes:
        """The bytes of an answer as they arrive, which may be damaged."""

    def empty(self, node: "PartitionNode") -> None:
        """Take away all that a node has of the partition."""

    def maybe_delete(self, node: "PartitionNode") -> None:
        """Let a leader delete a part of what is committed, from time to time."""

    def on_stopped(self, reason: str) -> None:
        """A follower has stopped, because to go on would remove committed records (TRUNC-8)."""

    def on_answered(self, leader: "PartitionNode", leader_epoch: int, request_epoch: int) -> None:
        """A leader has answered a fetch of ``request_epoch`` from its log."""


class PartitionNode:
    """A broker's process and its disk.

    Args:
        node_id: its id.
        world: its outside.
        log: its disk.
    """

    def __init__(self, node_id: NodeId, world: NodeWorld, log: MemoryLog) -> None:
        self.node_id = node_id
        self.log = log
        self.role: PartitionLeader | PartitionFollower | None = None
        self.image: Image | None = None
        self.incarnation = 0
        self.is_running = False
        self.broker_epoch = -1
        self.previous_epoch = -1
        """Under which registration the last process ended without losing anything; -1 if it may have (BRK-2, BRK-3)."""
        self.wants_shutdown = False
        self.is_incomplete = False
        """True if it lost records that it had, and was not in the ISR since: nothing may be demanded of its log."""
        self.lost_epoch = -1
        """The broker epoch under which it lost records last."""
        self._world = world
        self._parked: dict[NodeId, Asked] = {}
        self._producing: list[tuple[int, int, int, int]] = []
        self._fetch_id = 0

    def __repr__(self) -> str:
        return f"node {self.node_id}"

    # --- process -------------------------------------------------------------------------------------------------------------------

    def begin(self, image: Image) -> None:
        """Serve as one that is registered already."""
        self.is_running = True
        self.registered(image.brokers[self.node_id].epoch, image)

    def start(self) -> None:
        """Begin a new process, and register it until that succeeds."""
        self.is_running = True
        self.incarnation += 1
        self.wants_shutdown = False
        self._register()

    def stop(self) -> None:
        """End the process as kill -9 does."""
        self.is_running = False
        self.role = None
        self.image = None
        self.broker_epoch = -1
        self._parked.clear()
        self._producing.clear()

    def _register(self) -> None:
        if self.broker_epoch < 0:
            self._world.ask_controller(self, "register", self.previous_epoch)
            self._world.after(self, BACK_OFF_US * 2, self._register)

    def registered(self, epoch: int, image: Image) -> None:
        """The controller knows this process now; the first registration that is answered counts, as the controller keeps the last."""
        self.broker_epoch = epoch
        self.previous_epoch = -1
        self._apply(image)
        self._heartbeat(self.incarnation, epoch)
        self._tick(self.incarnation)

    def _heartbeat(self, incarnation: int, epoch: int) -> None:
        if self.incarnation == incarnation and self.broker_epoch == epoch and self.image is not None:
            self._world.ask_controller(self, "heartbeat", epoch, self.image.offset, self.wants_shutdown)
            self._world.after(self, HEARTBEAT_US, self._heartbeat, incarnation, epoch)

    def _tick(self, incarnation: int) -> None:
        """Do the work that is due from time to time: a look at the ISR, a flush, a checkpoint."""
        if self.incarnation == incarnation:
            self._alter_isr()
            if self._world.random.random() < 0.2:
                self.log.flush()
                self.log.checkpoint()
                self._world.maybe_delete(self)
            self._world.after(self, HEARTBEAT_US, self._tick, incarnation)

    # --- metadata ------------------------------------------------------------------------------------------------------------------

    def on_image(self, image: Image) -> None:
        """Newer metadata came; images may come late, and leave out others."""
        if self.image is not None and image.offset > self.image.offset:
            self._apply(image)

    def _apply(self, image: Image) -> None:
        old = self.image
        self.image = image
        self.log.settings = replace(self.log.settings, min_insync_replicas=image.min_insync_replicas)
        state = image.partition
        role = self.role
        if role is not None and role.leader_epoch == state.leader_epoch:
            if isinstance(role, PartitionLeader):
                role.update(state, self._world.now_us)
            else:
                role.update(state)
        else:
            firm = is_still_firm(
                old.partition if old is not None else None,
                state,
                was_leader=isinstance(role, PartitionLeader),
                follower=role if isinstance(role, PartitionFollower) else None,
            )
            self._take_role(firm=firm)
        self._progress()
        self._alter_isr()

    def _take_role(self, *, firm: bool) -> None:
        assert self.image is not None
        state = self.image.partition
        if self.node_id not in state.replicas:
            self.role = None
            self._world.empty(self)  # by metadata that is applied, and not before (REASSIGN-4)
        elif state.leader == self.node_id:
            if must_flush_to_lead(self.log):
                self.log.flush()
            self.log.begin_epoch(state.leader_epoch)
            self.role = None  # there is no leader while the new leader's core is made
            self.role = PartitionLeader(
                self.log,
                state,
                self.node_id,
                now_us=self._world.now_us,
                lag_time_max_us=self._world.lag_time_max_us,
                is_eligible=self._is_eligible,
            )
        else:
            self.role = PartitionFollower(self.log, state, self.node_id, high_watermark_is_firm=firm)
            self._fetch()

    def _is_eligible(self, node: NodeId, epoch: int) -> bool:
        assert self.image is not None
        broker = self.image.brokers[node]
        return broker.is_active and broker.epoch == epoch

    # --- follower ------------------------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        role = self.role
        if not isinstance(role, PartitionFollower) or role.state.leader < 0:
            return
        self._fetch_id += 1
        fetch_id = self._fetch_id
        if role.must_flush:
            self._world.after(self, FLUSH_US, self._flush_and_fetch, fetch_id)
            return
        asked = Asked(self.node_id, self.incarnation, self.broker_epoch, role.position, fetch_id)
        self._world.send(self, role.state.leader, "on_fetch", asked)
        self._world.after(self, FETCH_TIMEOUT_US, self._fetch_again, fetch_id)

    def _flush_and_fetch(self, fetch_id: int) -> None:
        self.log.flush()
        self._fetch_again(fetch_id)

    def _fetch_again(self, fetch_id: int) -> None:
        if fetch_id == self._fetch_id:
            self._fetch()

    def on_fetch_answer(self, asked: Asked, answer: FetchAnswer) -> None:
        """An answer of some leader, perhaps to what was asked long ago."""
        role = self.role
        if isinstance(role, PartitionFollower):
            self._go_on(asked, role, lambda: role.on_answer(asked.position, answer, 0))

    def on_range_answer(self, asked: Asked, start_offset: int, end_offset: int) -> None:
        """A leader's answer has come: the start and the end of its log."""
        role = self.role
        if isinstance(role, PartitionFollower):
            self._go_on(asked, role, lambda: role.on_leader_range(asked.position, start_offset, end_offset))

    def _go_on(self, asked: Asked, role: PartitionFollower, take_in: Callable[[], Next]) -> None:
        try:
            step = take_in()
        except CommittedDataLossError as error:
            self._world.on_stopped(str(error))
            role.high_watermark_is_firm = False  # as an operator might decide, after losses beyond the promise
            step = Next.BACK_OFF
        if asked.fetch_id != self._fetch_id:
            return
        if step is Next.ASK_RANGE:
            self._world.send(self, role.state.leader, "on_range", asked)
        elif step is Next.BACK_OFF:
            self._world.after(self, BACK_OFF_US, self._fetch_again, asked.fetch_id)
        else:
            self._fetch()

    # --- leader --------------------------------------------------------------------------------------------------------------------

    def on_fetch(self, asked: Asked) -> None:
        """A follower's fetch: answered at once if there is something to say, else when there is, or after a while."""
        role = self.role
        position = asked.position
        before = self.log.high_watermark
        try:
            if role is not None:
                check_leader_epoch(position.leader_epoch, role.leader_epoch)
            if not isinstance(role, PartitionLeader):
                raise ApiError(ErrorCode.not_leader_or_follower)
            offsets = role.on_follower_fetch(self._world.now_us, asked.replica, asked.broker_epoch, *position)
        except ApiError as error:
            self._answer(asked, FetchAnswer(error.code))
            return
        has_news = self.log.high_watermark != before and self._world.profile.tells_high_watermark
        if offsets.diverges or offsets.log_end_offset > position.fetch_offset or has_news:
            self._answer_from_log(asked)
        else:
            self._parked[asked.replica] = asked
            self._world.after(self, FETCH_WAIT_US, self._unpark, asked)
        if self.log.high_watermark != before:
            self._progress()
        if role.can_join_isr(asked.replica, self._world.now_us):
            self._alter_isr()

    def on_range(self, asked: Asked) -> None:
        """A follower asks where the log starts and ends (TRUNC-5)."""
        role = self.role
        if isinstance(role, PartitionLeader) and role.leader_epoch == asked.position.leader_epoch:
            log = self.log
            self._world.answer(self, asked, "on_range_answer", asked, log.log_start_offset, log.log_end_offset)

    def _answer_from_log(self, asked: Asked) -> None:
        role = self.role
        position = asked.position
        try:
            if not isinstance(role, PartitionLeader):
                raise ApiError(ErrorCode.not_leader_or_follower)
            offsets = role.check_follower_fetch(asked.replica, asked.broker_epoch, *position[:3])
        except ApiError as error:
            answer = FetchAnswer(error.code)
        else:
            self._world.on_answered(self, role.leader_epoch, position.leader_epoch)
            records = b""
            if not offsets.diverges:
                records = self._world.carry(
                    self.log.read(position.fetch_offset, offsets.log_end_offset, self._world.profile.batches_per_fetch)
                )
            answer = FetchAnswer(
                0,
                offsets.high_watermark,
                offsets.log_start_offset,
                records,
                offsets.diverging_epoch,
                offsets.diverging_end_offset,
            )
        self._answer(asked, answer)

    def _answer(self, asked: Asked, answer: FetchAnswer) -> None:
        self._world.answer(self, asked, "on_fetch_answer", asked, answer)

    def _unpark(self, asked: Asked) -> None:
        if self._parked.get(asked.replica) is asked:
            del self._parked[asked.replica]
            self._answer_from_log(asked)

    def on_produce(self, batch: bytes, request_id: int, acks: int) -> None:
        """A producer's batch; acks=all waits until it is committed (PRODUCE-2, PRODUCE-7)."""
        role = self.role
        if not isinstance(role, PartitionLeader):
            self._world.answer_client(self, request_id, ErrorCode.not_leader_or_follower, -1)
            return
        try:
            base_offset, next_offset, _ = role.append(memoryview(bytearray(batch)), acks, 0)
        except ApiError as error:
            self._world.answer_client(self, request_id, error.code, -1)
            return
        if acks == ALL_REPLICAS:
            self._producing.append((next_offset, role.leader_epoch, request_id, base_offset))
        if self.log.settings.flush_messages == 1:
            self._world.after(self, FLUSH_US, self._flush)
        self._progress()

    def _flush(self) -> None:
        self.log.flush()
        if isinstance(self.role, PartitionLeader) and self.role.maybe_advance_high_watermark():
            self._progress()

    def _progress(self) -> None:
        """Answer the requests that waited for what the log or the role now say."""
        role = self.role
        for asked in tuple(self._parked.values()):
            position = asked.position
            is_led = isinstance(role, PartitionLeader) and role.leader_epoch == position.leader_epoch
            if not is_led or self.log.log_end_offset > position.fetch_offset:
                self._unpark(asked)
        waiting, self._producing = self._producing, []
        for next_offset, leader_epoch, request_id, base_offset in waiting:
            if not isinstance(role, PartitionLeader) or role.leader_epoch != leader_epoch:
                self._world.answer_client(self, request_id, ErrorCode.not_leader_or_follower, -1)
            elif self.log.high_watermark < next_offset:
                self._producing.append((next_offset, leader_epoch, request_id, base_offset))
            elif not role.has_enough_replicas():
                self._world.answer_client(self, request_id, ErrorCode.not_enough_replicas_after_append, -1)
            else:
                self._world.answer_client(self, request_id, ErrorCode.none, base_offset)

    # --- in-sync set ---------------------------------------------------------------------------------------------------------------

    def _alter_isr(self) -> None:
        role = self.role
        if not isinstance(role, PartitionLeader):
            return
        change = role.next_isr_change(self._world.now_us, self.broker_epoch)
        if change is not None:
            self._world.ask_controller(self, "alter_partition", self.broker_epoch, change)
            self._world.after(self, ALTER_TIMEOUT_US, self.on_isr_answer, change, None)

    def on_isr_answer(self, change: IsrChange, answer: IsrAnswer | None) -> None:
        """The controller's answer, or None if it has not come in time."""
        role = self.role
        if isinstance(role, PartitionLeader) and role.leader_epoch == change.leader_epoch:
            role.on_isr_answer(change, answer or IsrAnswer(ErrorCode.request_timed_out), self._world.now_us)
            self._progress()
