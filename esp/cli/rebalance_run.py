"""``esp rebalance apply`` and ``resume``: a plan is carried out to its end."""

import time
from typing import Annotated

import typer

from esp.cli.kafka_reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, print_warning
from esp.cli.rebalance_display import make_display
from esp.cli.rebalance_latency import ProduceLatency
from esp.cli.rebalance_plan import PlanPath
from esp.model.errors import OperatorError
from esp.rebalance.cluster import ConfigTarget, ReassignmentAdmin
from esp.rebalance.driver import Driver
from esp.rebalance.execution import Execution, Outcome, Patience
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Wish, Wished
from esp.rebalance.pace import HELD_BYTES_PER_SECOND, Pace
from esp.rebalance.plan_file import PlanFile, read_plan
from esp.rebalance.sizes import format_duration, parse_size
from esp.rebalance.stages import Stage
from esp.rebalance.staleness import check_before_begin, check_before_resume
from esp.rebalance.throttle_setting import RATES

Budget = Annotated[
    str | None,
    typer.Option("--budget", metavar="BYTES", help="Per second, for each broker and direction; the plan's without it."),
]
MaxProduceP99 = Annotated[
    float | None,
    typer.Option(
        "--max-produce-p99", metavar="MS", help="Slow down while producers wait longer than this, speed up while not."
    ),
]
BrokerDeadAfter = Annotated[
    float, typer.Option("--broker-dead-after", metavar="S", help="How long a broker that is down is waited for.")
]
Deadline = Annotated[
    float, typer.Option("--deadline", metavar="S", help="How long a move may go on without one more byte.")
]


class SystemTimer:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(time.time() * 1000)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def apply(
    path: PlanPath,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    budget: Budget = None,
    max_produce_p99: MaxProduceP99 = None,
    broker_dead_after: BrokerDeadAfter = 60.0,
    deadline: Deadline = 600.0,
    json: Json = False,
) -> None:
    """Carry a plan out, and follow it to its end.

    Stopping this command stops nothing that was begun: go on with [bold]esp rebalance resume[/bold], or cancel.
    """
    file = read_plan(path)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        if journal.history.began_ms is not None:
            raise OperatorError(f"the plan {path} has been begun already", f"Go on with: esp rebalance resume {path}")
        _lock(journal, path)
        check_before_begin(file.plan, admin)
        _finish(
            carry_out(
                admin,
                journal,
                file,
                _pace(file, budget, max_produce_p99),
                _patience(broker_dead_after, deadline),
                json=json,
            ),
            path,
        )


def resume(
    path: PlanPath,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    budget: Budget = None,
    max_produce_p99: MaxProduceP99 = None,
    broker_dead_after: BrokerDeadAfter = 60.0,
    deadline: Deadline = 600.0,
    json: Json = False,
) -> None:
    """Go on with a plan that was paused, or whose command was killed; from any machine that has the plan."""
    file = read_plan(path)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        check_before_resume(file.plan, admin)
        is_mine = journal.lock()
        journal.add(Wished(SystemTimer().now_ms(), Wish.RUN))
        if not is_mine:
            print_line("Another process carries this plan out; it goes on now.")
            return
        _finish(
            carry_out(
                admin,
                journal,
                file,
                _pace(file, budget, max_produce_p99),
                _patience(broker_dead_after, deadline),
                json=json,
            ),
            path,
        )


def carry_out(
    admin: ReassignmentAdmin, journal: Journal, file: PlanFile, pace: Pace, patience: Patience, *, json: bool
) -> Outcome:
    """Carry a plan out, whose journal is locked, and show it.

    Raises:
        OperatorError: the cluster does not answer for long, or refuses.
    """
    alive = [node for node, broker in admin.brokers().items() if not broker.fenced]
    _warn_of_own_rates(admin, alive)
    latency = ProduceLatency(admin, alive)
    if pace.max_produce_p99_ms is not None and not latency.addresses:
        print_warning(
            "this cluster does not tell its produce latency: --max-produce-p99 is ignored, the budget stays as it is"
        )
        pace.max_produce_p99_ms = None
    timer = SystemTimer()
    began_ms = timer.now_ms()
    execution = Execution(file.plan, pace, patience)
    display = make_display(json=json)
    try:
        with display.shown():
            outcome = Driver(admin, execution, journal, timer, display.watch, latency).run(file.plan_id)
    except KeyboardInterrupt:
        print_warning(
            "what was begun goes on, and stays throttled: go on with `esp rebalance resume`, or cancel the plan"
        )
        raise
    took_s = (timer.now_ms() - began_ms) / 1000
    duration = file.plan.duration
    counts = {stage: sum(each.stage is stage for each in execution.moves) for stage in Stage}
    if json:
        print_json(
            {
                "event": "finished",
                "outcome": outcome.value,
                "seconds": took_s,
                "predicted_seconds": [duration.low_s, duration.high_s],
                "moves": {stage.value: count for stage, count in counts.items() if count},
            }
        )
        return outcome
    for each in execution.moves:
        if each.stage is Stage.BLOCKED:
            print_warning(f"{each.move.name}: {each.reason}")
    print_line(
        f"{outcome.value}: {counts[Stage.DONE]} of {len(execution.moves)} moves in {format_duration(took_s)}; predicted "
        f"{format_duration(duration.low_s)} to {format_duration(duration.high_s)}. Throttles are gone."
    )
    return outcome


def hold(admin: ReassignmentAdmin) -> None:
    """Slow what is being copied down to next to nothing, without anybody who carries the plan out."""
    admin.change_settings({ConfigTarget(broker=""): dict.fromkeys(RATES, str(HELD_BYTES_PER_SECOND))})


def _finish(outcome: Outcome, path: str) -> None:
    if outcome is Outcome.STOPPED:
        raise OperatorError(
            f"the plan {path} could not be carried out to its end",
            "What was done stays. Make a new plan for the same intent, or take it back with `esp rebalance rollback`.",
        )


def _lock(journal: Journal, path: str) -> None:
    if not journal.lock():
        raise OperatorError(f"another process carries out {path}", f"See it with: esp rebalance status {path}")


def _pace(file: PlanFile, budget: str | None, max_produce_p99: float | None) -> Pace:
    bytes_per_second = file.plan.limits.broker_bytes_per_second if budget is None else parse_size("--budget", budget)
    if bytes_per_second < HELD_BYTES_PER_SECOND:
        raise OperatorError(f"--budget {budget}: nothing would get done", "Give at least 1K.")
    if max_produce_p99 is not None and max_produce_p99 <= 0:
        raise OperatorError(f"--max-produce-p99 {max_produce_p99:g}: no time", "Give milliseconds above 0.")
    return Pace(bytes_per_second, max_produce_p99)


def _patience(broker_dead_after_s: float, deadline_s: float) -> Patience:
    return Patience(int(broker_dead_after_s * 1000), int(deadline_s * 1000))


def _warn_of_own_rates(admin: ReassignmentAdmin, alive: list[int]) -> None:
    """A broker's own rate counts before that of all brokers, which is the one that plans set."""
    for target, rates in admin.settings([ConfigTarget(broker=str(broker)) for broker in alive], RATES).items():
        if rates:
            told = ", ".join(f"{name}={value}" for name, value in sorted(rates.items()))
            print_warning(f"{target} has rates of its own, which count before the budget: {told}")
