"""Drives an execution: looks at the cluster, gives the orders, keeps the journal, and sleeps in between.

Whatever it does is in the journal before it is done, if only the journal can tell later that it was done. It may be killed at any moment.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.placement.step import Move
from esp.rebalance.cluster import ReassignmentAdmin
from esp.rebalance.execution import (
    Cancel,
    Elect,
    Execution,
    Finish,
    Order,
    Outcome,
    Submit,
    Throttle,
    Unthrottle,
)
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Begun, Ended, Finished, Sample, Submitting, Throttling, Unthrottled
from esp.rebalance.looking import look_for_executor
from esp.rebalance.report import Report, report_on
from esp.rebalance.throttle_setting import ThrottleSetting

TURN_S: Final = 0.5
"""Between two looks. A move that ends makes room for the next one no later than this."""
_SAMPLE_MS: Final = 2000
_LATENCY_MS: Final = 5000
"""Between two judgements of the produce latency: enough requests for a percentile, and time for a new rate to take effect."""
TROUBLE_MS: Final = 120_000
"""The time for which a request is repeated if the cluster does not answer, or refuses an order."""


class Timer(Protocol):
    """Time, as tools have it."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""

    def sleep(self, seconds: float) -> None:
        """Let time pass."""


Watch = Callable[[Report], None]
"""Called with the progress after every turn."""

Latency = Callable[[], float | None]
"""The 99th percentile of produce requests since the last call, in milliseconds; None if there were none, or no broker reports it."""


class Driver:
    """Carries one plan out, or goes on with it. The process that makes a driver holds the journal's lock.
    Args:
        admin: the cluster.
        execution: the execution of the plan.
        journal: the journal of the plan.
        timer: tells the time, and waits.
        watch: called with the progress after every turn.
        latency: the produce latency.
    """

    def __init__(
        self,
        admin: ReassignmentAdmin,
        execution: Execution,
        journal: Journal,
        timer: Timer,
        watch: Watch,
        latency: Latency,
    ) -> None:
        self._admin = admin
        self._execution = execution
        self._journal = journal
        self._timer = timer
        self._watch = watch
        self._latency = latency
        self._throttles = ThrottleSetting(admin, execution.plan.moves)
        self._are_replicas_named = False
        self._limit: int | None = None
        self._p99_ms: float | None = None
        self._latency_due_ms = 0
        self._trouble_since_ms: int | None = None

    def run(self, plan_id: str) -> Outcome:
        """Go on until the plan is over.

        Raises:
            OperatorError: the cluster did not answer for long, or refuses. The plan can be resumed.
        """
        self._journal.add(Begun(self._timer.now_ms(), plan_id))
        while True:
            try:
                outcome, did_anything = self._turn()
            except OperatorError as error:
                self._wait_for_cluster(error)
                continue
            self._trouble_since_ms = None
            self._show()
            if outcome is not None:
                return outcome
            if not did_anything:
                self._timer.sleep(TURN_S)

    def _turn(self) -> tuple[Outcome | None, bool]:
        execution = self._execution
        self._journal.catch_up()
        execution.wish = self._journal.history.wish
        sight = look_for_executor(self._admin, execution)
        now_ms = self._timer.now_ms()
        execution.observe(sight, now_ms)
        self._record(now_ms)
        if now_ms >= self._latency_due_ms:
            self._latency_due_ms = now_ms + _LATENCY_MS
            self._p99_ms = self._latency()
            execution.pace.on_latency(self._p99_ms)
        orders = execution.decide(now_ms)
        for order in orders:
            if isinstance(order, Finish):
                self._record(now_ms)
                self._journal.add(Finished(now_ms, order.outcome.value))
                return order.outcome, True
            self._give(order, now_ms)
        return None, bool(orders)

    def _give(self, order: Order, now_ms: int) -> None:
        execution = self._execution
        match order:
            case Throttle(bytes_per_second):
                self._throttle(bytes_per_second, now_ms)
                execution.on_throttled(bytes_per_second)
            case Submit(moves):
                self._journal.add(Submitting(now_ms, [move.name for move in moves]))
                execution.on_submitted(moves, self._admin.reassign({move.name: move.after for move in moves}), now_ms)
            case Cancel(moves):
                execution.on_cancelled(order, self._cancel(moves))
            case Elect(partitions):
                self._admin.elect_preferred(partitions)
                execution.on_elected()
            case Unthrottle():
                if not self._journal.history.is_unthrottled:
                    self._throttles.clear(self._journal.history.previous_rates)
                    self._journal.add(Unthrottled(now_ms))
                self._limit = None
                execution.on_unthrottled()

    def _cancel(self, moves: Sequence[Move]) -> dict[TopicPartition, str]:
        """Cancel, and restore the order of the replicas, which a cancel loses, so that the preferred leader stays. Returns the refusals."""
        refused = self._admin.reassign(dict.fromkeys(move.name for move in moves))
        in_order = {move.name: move.before for move in moves if move.name not in refused and len(move.before) > 1}
        if in_order:
            with suppress(OperatorError):  # it is cancelled, whatever becomes of the order
                self._admin.reassign(in_order)
        return refused

    def _throttle(self, bytes_per_second: int, now_ms: int) -> None:
        if not self._are_replicas_named:
            if self._journal.history.previous_rates is None:
                self._journal.add(Throttling(now_ms, self._throttles.previous_rates()))
            self._throttles.name_replicas()
            self._are_replicas_named = True
        self._throttles.set_rate(bytes_per_second)
        self._limit = bytes_per_second

    def _record(self, now_ms: int) -> None:
        """Write down what has ended, and now and then how far all is."""
        history = self._journal.history
        ended: list[Ended] = []
        for moving in self._execution.moves:
            known = history.ended.get(moving.move.name)
            if moving.stage.is_over and (known is None or known.stage != moving.stage.value):
                ended.append(Ended(now_ms, moving.move.name, moving.stage.value, moving.reason))
        if ended:
            self._journal.add(*ended)
        if not history.samples or now_ms - history.samples[-1].at_ms >= _SAMPLE_MS:
            self._journal.add(Sample(now_ms, sum(moving.copied_bytes for moving in self._execution.moves)))

    def _wait_for_cluster(self, error: OperatorError) -> None:
        now_ms = self._timer.now_ms()
        self._trouble_since_ms = now_ms if self._trouble_since_ms is None else self._trouble_since_ms
        if now_ms - self._trouble_since_ms >= TROUBLE_MS:
            raise error
        self._show(f"waiting for an answer: {error.problem}")
        self._timer.sleep(TURN_S)

    def _show(self, trouble: str = "") -> None:
        self._watch(
            report_on(
                self._execution,
                self._journal.history.samples,
                limit_bytes_per_second=self._limit,
                produce_p99_ms=self._p99_ms,
                trouble=trouble,
            )
        )
