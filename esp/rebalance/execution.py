"""Carries a plan out, as a state machine without I/O: looks at the cluster go in, orders come out, time is an argument.

The rules:
* A step begins when every move before it has begun and the steps that it waits for have ended (:mod:`esp.placement.plan`); a broker takes
  part in no more copies at a time than the plan's limits say, unless they are so small that together they take no more than
  ``SMALL_COPIES_S`` of its budget: then in ``SMALL_COPIES_FACTOR`` times as many. The next move begins as soon as one ends.
* Nothing is moved before the throttle is set, and at the end it is taken away: also if the plan is cancelled or stops.
* An execution may be made anew at any moment, on any machine: its progress is read from the cluster. Orders given twice do no harm.
* A broker that is down longer than it may be stops the moves that need it: they are cancelled, and those that would need it do not
  begin. The others go on, and the outcome says that the plan is not done.

Each move keeps its stage, the reason if it waits, and the bytes copied so far. Times are milliseconds.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

from esp.model.ids import NodeId, TopicPartition
from esp.placement.estimate import SMALL_COPIES_FACTOR, SMALL_COPIES_S
from esp.placement.plan import Plan
from esp.placement.step import Move
from esp.rebalance.cluster import Broker, Partition, Reassignment, Replica
from esp.rebalance.journal_entries import Wish
from esp.rebalance.pace import HELD_BYTES_PER_SECOND, Pace
from esp.rebalance.stages import BELIEVED_AFTER_MS, NEXT, Seen, Stage, see


@dataclass
class Moving:
    """A move and its progress.
    Args:
        move: the move of the plan.
        step: position of its step.
    """

    move: Move
    step: int
    stage: Stage = Stage.PLANNED
    reason: str = ""
    """The reason for waiting or for the end, beginning with ``waiting for`` or ``blocked by``; empty if there is none."""
    copied_bytes: int = 0
    total_bytes: int = 0
    began_ms: int | None = None
    progress_ms: int = 0
    """The time at which its copied bytes last grew, or at which it was last held up for a reason that is not its own."""
    cancellations_refused: int = 0
    _strange_since_ms: int | None = None

    def __post_init__(self) -> None:
        self.total_bytes = self.move.copied_bytes

    def begin(self, now_ms: int) -> None:
        """Note that the controller was asked for the move and did not refuse."""
        self.stage = Stage.SUBMITTED
        self.began_ms = self.progress_ms = now_ms
        self.reason = ""

    def end(self, stage: Stage, reason: str) -> None:
        """Note that the move has ended, in a stage that is over, and why."""
        self.stage = stage
        self.reason = reason

    def observe(self, partition: Partition | None, moving: Reassignment | None, now_ms: int) -> None:
        """Go on by what a look shows of the partition."""
        if self.stage.is_over:
            return
        was_active = self.stage.is_active
        seen = see(self.move, partition, moving)
        self.stage = NEXT[self.stage][seen]
        if self.stage is Stage.DONE:
            self.copied_bytes = self.total_bytes
            self.reason = ""
        elif self.stage is Stage.BLOCKED:
            self.reason = (
                f"blocked by a change from outside the plan: the partition is {self._where(partition, moving)}"
            )
        elif self.stage.is_active and not was_active:  # begun by an earlier run of the tool
            self.began_ms = self.progress_ms = now_ms
        if self.stage.is_active and seen in (Seen.BEFORE, Seen.ELSEWHERE):
            self._doubt(partition, moving, now_ms)
        else:
            self._strange_since_ms = None

    def _doubt(self, partition: Partition | None, moving: Reassignment | None, now_ms: int) -> None:
        """The partition is not where an active move should have it; believe that after a while."""
        self._strange_since_ms = now_ms if self._strange_since_ms is None else self._strange_since_ms
        if now_ms - self._strange_since_ms >= BELIEVED_AFTER_MS:
            where = self._where(partition, moving)
            self.end(
                Stage.BLOCKED,
                f"blocked: the move was cancelled or changed from outside the plan: the partition is {where}",
            )

    def _where(self, partition: Partition | None, moving: Reassignment | None) -> str:
        if moving is not None:
            return f"on its way to {list(moving.target)}"
        return "gone" if partition is None else f"on {list(partition.replicas)}"

    def measure(self, sizes: Mapping[Replica, int], leader: int, now_ms: int) -> None:
        """Take the sizes of the copies; if no broker reports any, the last reported sizes hold."""
        if not self.stage.is_active or not any(Replica(self.move.name, broker) in sizes for broker in self.move.adding):
            return
        whole = sizes.get(Replica(self.move.name, leader), self.move.replica_bytes)
        copied = sum(min(whole, sizes.get(Replica(self.move.name, broker), 0)) for broker in self.move.adding)
        if copied > self.copied_bytes:
            self.progress_ms = now_ms
        self.copied_bytes = copied
        self.total_bytes = whole * len(self.move.adding)


class Outcome(Enum):
    """The outcome of a plan."""

    DONE = "done"
    STOPPED = "stopped"
    """The plan has ended, and some of its moves could not be done."""
    CANCELLED = "cancelled"


class Sight(NamedTuple):
    """The cluster as it looked at one moment."""

    brokers: Mapping[int, Broker]
    partitions: Mapping[TopicPartition, Partition]
    reassignments: Mapping[TopicPartition, Reassignment]
    sizes: Mapping[Replica, int]
    """The sizes in bytes of the replicas that brokers reported."""


class Throttle(NamedTuple):
    """Let no broker send or receive more than this for moves."""

    bytes_per_second: int


class Submit(NamedTuple):
    """Begin these moves."""

    moves: tuple[Move, ...]


class Cancel(NamedTuple):
    """Cancel these moves, which are going on."""

    moves: tuple[Move, ...]
    reason: str


class Elect(NamedTuple):
    """Let the preferred leaders of these partitions lead, if they can."""

    partitions: tuple[TopicPartition, ...]


class Unthrottle(NamedTuple):
    """Take away the throttles."""


class Finish(NamedTuple):
    """Nothing is left to do."""

    outcome: Outcome


_CANCELLATIONS_MAX: Final = 10
"""The most attempts to cancel a move, a turn between two of them."""

Order: TypeAlias = Throttle | Submit | Cancel | Elect | Unthrottle | Finish


@dataclass(frozen=True)
class Patience:
    """The time limits of waits, in milliseconds."""

    broker_down_ms: int = 60_000
    """The time for which a broker that a move needs may be away."""
    no_progress_ms: int = 600_000
    """The time in which a move that has begun must copy another byte; every byte that comes sets it anew."""


class Execution:
    """A plan that is being carried out. Each turn: :meth:`observe`, then :meth:`decide`, then the ``on_…`` of each order.

    Args:
        plan: the plan to carry out.
        pace: the rate of its copies.
        patience: the time limits of its waits.
    """

    def __init__(self, plan: Plan, pace: Pace, patience: Patience) -> None:
        self.plan = plan
        self.pace = pace
        self.wish = Wish.RUN
        self.moves = [Moving(move, number) for number, step in enumerate(plan.steps) for move in step.moves]
        self._by_name = {moving.move.name: moving for moving in self.moves}
        self._patience = patience
        self._throttle: int | None = None
        """The rate that was set last; None before the first time and after the last."""
        self._is_unthrottled = False
        self._is_elected = False
        self._down_since_ms: dict[int, int] = {}
        self._sight = Sight({}, {}, {}, {})

    def observe(self, sight: Sight, now_ms: int) -> None:
        """Take a look at the cluster."""
        self._sight = sight
        down = [
            broker for broker in self._brokers_of_plan() if broker not in sight.brokers or sight.brokers[broker].fenced
        ]
        self._down_since_ms = {broker: self._down_since_ms.get(broker, now_ms) for broker in down}
        for moving in self.moves:
            name = moving.move.name
            partition = sight.partitions.get(name)
            moving.observe(partition, sight.reassignments.get(name), now_ms)
            moving.measure(sight.sizes, partition.leader if partition is not None else -1, now_ms)

    def decide(self, now_ms: int) -> list[Order]:
        """Return the orders to give now, in sequence; none while the moves go on as they should."""
        if self.wish is Wish.CANCEL:
            return self._wind_up()
        self.judge(now_ms)
        failed = {
            moving.step: moving.move.name for moving in self.moves if moving.stage in (Stage.BLOCKED, Stage.CANCELLED)
        }
        hopeless = [(moving, reason) for moving in self.moves if (reason := self._why_hopeless(moving, failed, now_ms))]
        orders: list[Order] = []
        for moving, reason in hopeless:
            if moving.stage.is_active:
                orders.append(Cancel((moving.move,), reason))
            else:
                moving.end(Stage.BLOCKED, reason)
        if orders:
            return orders
        if all(moving.stage.is_over for moving in self.moves):
            return self._finish(Outcome.DONE if self.is_done else Outcome.STOPPED)
        rate = HELD_BYTES_PER_SECOND if self.wish is Wish.PAUSE else self.pace.bytes_per_second
        if self._throttle != rate:
            return [Throttle(rate)]
        ready = self._ready_moves() if self.wish is Wish.RUN else []
        return [Submit(tuple(moving.move for moving in ready))] if ready else []

    @property
    def is_done(self) -> bool:
        """True if every move has been done."""
        return all(moving.stage is Stage.DONE for moving in self.moves)

    def on_throttled(self, bytes_per_second: int) -> None:
        """The throttle was set."""
        self._throttle = bytes_per_second

    def on_submitted(self, moves: tuple[Move, ...], refused: Mapping[TopicPartition, str], now_ms: int) -> None:
        """Moves were handed to the controller, which refused some."""
        for move in moves:
            moving = self._by_name[move.name]
            if move.name in refused:
                moving.end(Stage.BLOCKED, f"blocked by the controller, which refused it: {refused[move.name]}")
            else:
                moving.begin(now_ms)

    def on_cancelled(self, order: Cancel, refused: Mapping[TopicPartition, str]) -> None:
        """Moves were cancelled. One that the controller refused to cancel may have ended in between, which the next look shows."""
        for move in order.moves:
            moving = self._by_name[move.name]
            moving.cancellations_refused += move.name in refused
            if move.name not in refused:
                moving.end(Stage.CANCELLED if self.wish is Wish.CANCEL else Stage.BLOCKED, order.reason)
            elif moving.cancellations_refused >= _CANCELLATIONS_MAX:
                moving.end(
                    Stage.BLOCKED, f"blocked by the controller, which refused to cancel it: {refused[move.name]}"
                )

    def on_unthrottled(self) -> None:
        """The throttles are gone."""
        self._throttle = None
        self._is_unthrottled = True

    def on_elected(self) -> None:
        """Preferred leaders were asked for."""
        self._is_elected = True

    def _wind_up(self) -> list[Order]:
        active = tuple(moving.move for moving in self.moves if moving.stage.is_active)
        if active:
            return [Cancel(active, "cancelled")]
        for moving in self.moves:
            if not moving.stage.is_over:
                moving.end(Stage.CANCELLED, "cancelled before it began")
        return self._finish(Outcome.CANCELLED)

    def _finish(self, outcome: Outcome) -> list[Order]:
        if not self._is_unthrottled:
            return [Unthrottle()]
        done = tuple(moving.move.name for moving in self.moves if moving.stage is Stage.DONE)
        if done and not self._is_elected:
            return [Elect(done)]
        return [Finish(outcome)]

    def _brokers_of_plan(self) -> set[int]:
        return {broker for moving in self.moves if not moving.stage.is_over for broker in moving.move.after}

    def judge(self, now_ms: int) -> None:
        """Give every active move its reason, if it waits for something."""
        for moving in self.moves:
            if not moving.stage.is_active:
                continue
            partition = self._sight.partitions.get(moving.move.name)
            if self.wish is Wish.PAUSE:
                moving.progress_ms = now_ms
                moving.reason = "waiting for the plan to be resumed"
            elif down := [broker for broker in moving.move.after if broker in self._down_since_ms]:
                moving.reason = f"waiting for broker {down[0]}, which is down"
            elif partition is not None and partition.leader < 0:
                moving.reason = "waiting for a leader of the partition"
            elif moving.copied_bytes < moving.total_bytes and now_ms - moving.progress_ms >= 10_000:
                moving.reason = f"waiting for bytes: none arrived for {(now_ms - moving.progress_ms) // 1000} s"
            elif moving.total_bytes and moving.copied_bytes >= moving.total_bytes:
                moving.reason = "waiting for the in-sync set"
            else:
                moving.reason = ""

    def _why_hopeless(self, moving: Moving, failed: Mapping[int, TopicPartition], now_ms: int) -> str:
        """The reason why a move that is not over cannot be done; empty if it may be. ``failed``: by step, a move of it that has failed."""
        if moving.stage.is_over or self.wish is Wish.PAUSE:
            return ""
        for broker in moving.move.after:
            since_ms = self._down_since_ms.get(broker)
            if since_ms is not None and now_ms - since_ms >= self._patience.broker_down_ms:
                return f"blocked by broker {broker}, which has been down for {(now_ms - since_ms) // 1000} s"
        if moving.stage.is_active:
            idle_ms = now_ms - moving.progress_ms
            if idle_ms >= self._patience.no_progress_ms:
                return f"blocked by its deadline: no progress for {idle_ms // 1000} s"
            return ""
        for number in self.plan.steps[moving.step].waits_for:
            if number in failed:
                return f"blocked by {failed[number]}, which did not free disk space for it"
        return ""

    def _ready_moves(self) -> list[Moving]:
        """The moves that may begin now."""
        open_steps = {moving.step for moving in self.moves if not moving.stage.is_over}
        busy = self._busy()
        ready: list[Moving] = []
        for number, step in enumerate(self.plan.steps):
            if any(other in open_steps for other in step.waits_for):
                self._tell_waiting(number, "waiting for disk space that earlier moves free")
                break
            held_up = False
            for move in step.moves:
                moving = self._by_name[move.name]
                if moving.stage.is_over or moving.stage.is_active:
                    continue
                moving.reason = self._why_not_yet(move, busy)
                if moving.reason:
                    held_up = True
                    continue
                moving.stage = Stage.THROTTLED
                busy.add(moving)
                ready.append(moving)
            if held_up:
                break
        return ready

    def _busy(self) -> "_Busy":
        busy = _Busy(self.plan.limits.moves_per_broker_max, self.pace.bytes_per_second)
        for moving in self.moves:
            if moving.stage.is_active:
                busy.add(moving)
        return busy

    def _why_not_yet(self, move: Move, busy: "_Busy") -> str:
        for broker in move.after:
            if broker in self._down_since_ms:
                return f"waiting for broker {broker}, which is down"
        partition = self._sight.partitions.get(move.name)
        if partition is not None and partition.leader < 0:
            return "waiting for a leader of the partition"
        for broker in sorted(_participants(move)):
            if not busy.has_room(broker, move):
                return f"waiting for broker {broker}, which takes part in {busy.moves[broker]} moves"
        return ""

    def _tell_waiting(self, step: int, reason: str) -> None:
        for move in self.plan.steps[step].moves:
            moving = self._by_name[move.name]
            if not moving.stage.is_over and not moving.stage.is_active:
                moving.reason = reason


class _Busy:
    """The load of each broker by the moves that go on.

    Args:
        moves_max: the number of moves in which a broker takes part, however large they are.
        bytes_per_second: the rate at which a broker sends, and receives, for all of them.
    """

    def __init__(self, moves_max: int, bytes_per_second: int) -> None:
        self.moves: Counter[NodeId] = Counter()
        self._left_bytes: Counter[NodeId] = Counter()
        self._moves_max = moves_max
        self._small_max = moves_max * SMALL_COPIES_FACTOR
        self._small_bytes_max = bytes_per_second * SMALL_COPIES_S

    def add(self, moving: Moving) -> None:
        """A move goes on, or is about to."""
        for broker in _participants(moving.move):
            self.moves[broker] += 1
            self._left_bytes[broker] += moving.total_bytes - moving.copied_bytes

    def has_room(self, broker: NodeId, move: Move) -> bool:
        """True if a broker may take part in one more move."""
        if self.moves[broker] < self._moves_max:
            return True
        left_bytes = self._left_bytes[broker] + move.copied_bytes
        return self.moves[broker] < self._small_max and left_bytes <= self._small_bytes_max


def _participants(move: Move) -> set[NodeId]:
    """The brokers that a move keeps busy: none if it only changes the order."""
    return {move.source, *move.adding} if move.adding else set()
