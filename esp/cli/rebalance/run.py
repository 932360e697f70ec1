"""``esp rebalance apply`` and ``resume``: a plan is carried out to its end.

Asks brokers what producers feel: over HTTP, where they serve metrics.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Annotated, Final

import typer

from esp.cli.kafka.command_config import settings_for
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, print_warning
from esp.cli.rebalance.display import make_display
from esp.cli.rebalance.plan import PlanPath
from esp.cli.rebalance.text import plan_as_json, plan_lines
from esp.model.errors import OperatorError
from esp.placement.intents import Rollback
from esp.rebalance.cluster import ConfigTarget, ReassignmentAdmin
from esp.rebalance.driver import Driver
from esp.rebalance.execution import Execution, Outcome, Patience
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Replanned, Wish, Wished
from esp.rebalance.pace import HELD_BYTES_PER_SECOND, Pace
from esp.rebalance.plan_file import PlanFile, read_plan, write_plan
from esp.rebalance.produce_latency import Buckets, quantile_ms, read_buckets
from esp.rebalance.replanning import REPLANS_MAX, by_hand, next_path, replan
from esp.rebalance.sizes import format_duration, parse_size
from esp.rebalance.stages import Stage
from esp.rebalance.staleness import check_before_begin, check_before_resume
from esp.rebalance.throttle_setting import RATES

_TIMEOUT_S: Final = 2.0
_ENCRYPTED: Final = "SSL://"


class ProduceLatency:
    """The 99th percentile of produce requests between two calls. A callable.

    Args:
        admin: tells where brokers serve metrics.
        brokers: the ones to ask, which are alive.
    """

    def __init__(self, admin: ReassignmentAdmin, brokers: Iterable[int]) -> None:
        self.addresses = admin.metrics_addresses(brokers)
        self._last: dict[int, Buckets] = {}

    def __call__(self) -> float | None:
        """Return it in milliseconds, of all brokers together; None at the first call, without produce requests, or if no broker answers."""
        now = {
            broker: buckets for broker, address in self.addresses.items() if (buckets := _fetch(address)) is not None
        }
        both = sorted(now.keys() & self._last.keys())
        found = quantile_ms([self._last[each] for each in both], [now[each] for each in both])
        self._last = now
        return found


def _fetch(address: str) -> Buckets | None:
    is_encrypted = address.startswith(_ENCRYPTED)
    host, _, port = address.removeprefix(_ENCRYPTED).rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S)
    if is_encrypted:
        context = settings_for({"ssl_context": None}).get("ssl_context")
        connection = HTTPSConnection(host.strip("[]"), int(port), timeout=_TIMEOUT_S, context=context)
    try:
        connection.request("GET", "/metrics")
        return read_buckets(connection.getresponse().read().decode())
    except (OSError, HTTPException, UnicodeDecodeError):  # it is down, which others notice
        return None
    finally:
        connection.close()


Budget = Annotated[
    str | None,
    typer.Option(
        "--budget", metavar="BYTES", help="Bytes per second for each broker and direction (default: the plan's)."
    ),
]
MaxProduceP99 = Annotated[
    float | None,
    typer.Option(
        "--max-produce-p99", metavar="MS", help="Slow down while producers wait longer than this, speed up while not."
    ),
]
BrokerDeadAfter = Annotated[
    float, typer.Option("--broker-dead-after", metavar="S", min=0, help="How long to wait for a broker that is down.")
]
Deadline = Annotated[
    float, typer.Option("--deadline", metavar="S", min=1, help="How long a move may continue without a new byte.")
]


Replan = Annotated[
    bool,
    typer.Option(
        "--replan",
        help=f"If the plan stops, make a new plan for the same intent and continue; {REPLANS_MAX} times at most.",
    ),
]


class SystemTimer:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return int(time.time() * 1000)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Way:
    """The options for carrying a plan out, as the commands take them."""

    budget: str | None = None
    max_produce_p99: float | None = None
    broker_dead_after_s: float = 60.0
    deadline_s: float = 600.0
    replans_max: int = 0
    json: bool = False


def apply(
    path: PlanPath,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    budget: Budget = None,
    max_produce_p99: MaxProduceP99 = None,
    broker_dead_after: BrokerDeadAfter = 60.0,
    deadline: Deadline = 600.0,
    may_replan: Replan = False,
    json: Json = False,
) -> None:
    """Carry a plan out, and show its progress until it ends.

    If this command is stopped, moves that have begun continue: continue the plan with [bold]esp rebalance resume[/bold], or cancel.
    """
    file = read_plan(path)
    way = Way(budget, max_produce_p99, broker_dead_after, deadline, REPLANS_MAX if may_replan else 0, json)
    with ReassignmentsAdmin(bootstrap_server) as admin:
        begin(admin, path, file, way)


def begin(admin: ReassignmentAdmin, path: str, file: PlanFile, way: Way) -> None:
    """Carry out a plan that has not been begun, and follow it to its end.

    Raises:
        OperatorError: the plan cannot be begun, or came to a stop.
    """
    with Journal(path, file.plan_id) as journal:
        finished = journal.history.finished
        if finished is not None and finished.outcome == Outcome.CANCELLED.value:
            raise OperatorError(
                f"the plan {path} was cancelled",
                f"Make a new plan, or carry out the rest of this one: esp rebalance resume {path}",
            )
        if journal.history.began_ms is not None:
            going_on = journal.history.successor or path
            raise OperatorError(f"the plan {path} has already begun", f"Continue with: esp rebalance resume {going_on}")
        if not journal.lock():
            raise OperatorError(f"another process runs {path}", f"See it with: esp rebalance status {path}")
        check_before_begin(file.plan, admin)
        _follow(admin, journal, path, file, way)


def resume(
    path: PlanPath,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    budget: Budget = None,
    max_produce_p99: MaxProduceP99 = None,
    broker_dead_after: BrokerDeadAfter = 60.0,
    deadline: Deadline = 600.0,
    may_replan: Replan = False,
    json: Json = False,
) -> None:
    """Resume a plan that was paused, or whose command was killed; from any machine that has the plan."""
    file = read_plan(path)
    way = Way(budget, max_produce_p99, broker_dead_after, deadline, REPLANS_MAX if may_replan else 0, json)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        if journal.history.successor is not None:
            raise OperatorError(
                f"the plan {path} has stopped, and another plan continues it",
                f"Continue with: esp rebalance resume {journal.history.successor}",
            )
        check_before_resume(file.plan, admin)
        is_mine = journal.lock()
        journal.add(Wished(SystemTimer().now_ms(), Wish.RUN))
        if not is_mine:
            print_line("Another process runs this plan; it continues now.")
            return
        _follow(admin, journal, path, file, way)


def _follow(admin: ReassignmentAdmin, journal: Journal, path: str, file: PlanFile, way: Way) -> None:
    """Carry out a plan whose journal is locked; if it comes to a stop, and replanning is wanted, carry out the new plan."""
    pace = _pace(file, way.budget, way.max_produce_p99)
    patience = Patience(int(way.broker_dead_after_s * 1000), int(way.deadline_s * 1000))
    outcome = carry_out(admin, journal, file, pace, patience, json=way.json)
    if outcome is Outcome.DONE:
        return
    if outcome is Outcome.CANCELLED:
        raise OperatorError(
            f"the plan {path} was cancelled",
            f"Completed moves stay. Roll them back with: esp rebalance rollback {path}",
        )
    problem = f"the plan {path} could not be completed"
    if isinstance(file.plan.intent, Rollback):
        raise OperatorError(
            problem, "Completed moves stay. Fix the cause, then plan a move for the remaining partitions."
        )
    if not way.replans_max:
        raise OperatorError(
            problem,
            f"Completed moves stay. For a new plan: {by_hand(file.plan, path)} (--replan does so automatically);"
            f" or roll back: esp rebalance rollback {path}",
        )
    timer = SystemTimer()
    print_warning(f"{problem}; a new one is made for the same intent")
    new = replan(admin, file.plan, timer)
    if new.plan.is_empty:
        return
    new_path = next_path(path)
    write_plan(new_path, new)
    journal.add(Replanned(timer.now_ms(), new_path))
    if way.json:
        print_json({"event": "replanned", "path": new_path, **plan_as_json(new)})
    else:
        for line in plan_lines(new, steps=False):
            print_line(line)
        print_line(f"Written to {new_path}.")
    begin(admin, new_path, new, replace(way, replans_max=way.replans_max - 1))


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
            "this cluster does not report its produce latency: --max-produce-p99 is ignored, the budget does not change"
        )
        pace.max_produce_p99_ms = None
    timer = SystemTimer()
    began_ms = timer.now_ms()
    execution = Execution(file.plan, pace, patience)
    display = make_display(json=json)
    try:
        with display.shown():
            outcome = Driver(admin, execution, journal, timer, display.watch, latency).run(file.plan_id)
    except (KeyboardInterrupt, OSError):  # the latter: its output takes no more
        print_warning(
            "moves that have begun continue, and stay throttled: run `esp rebalance resume`, or cancel the plan"
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
    """Throttle the copies in progress to next to nothing, without an executor of the plan."""
    admin.change_settings({ConfigTarget(broker=""): dict.fromkeys(RATES, str(HELD_BYTES_PER_SECOND))})


def _pace(file: PlanFile, budget: str | None, max_produce_p99: float | None) -> Pace:
    bytes_per_second = file.plan.limits.broker_bytes_per_second if budget is None else parse_size("--budget", budget)
    if bytes_per_second < HELD_BYTES_PER_SECOND:
        raise OperatorError(f"--budget {budget}: too low to make progress", "Give at least 1K.")
    if max_produce_p99 is not None and max_produce_p99 <= 0:
        raise OperatorError(f"--max-produce-p99 {max_produce_p99:g}: not a positive time", "Give milliseconds above 0.")
    return Pace(bytes_per_second, max_produce_p99)


def _warn_of_own_rates(admin: ReassignmentAdmin, alive: list[int]) -> None:
    """A broker's own rate counts before that of all brokers, which is the one that plans set."""
    for target, rates in admin.settings([ConfigTarget(broker=str(broker)) for broker in alive], RATES).items():
        if rates:
            shown = ", ".join(f"{name}={value}" for name, value in sorted(rates.items()))
            print_warning(f"{target} has rates of its own, which take precedence over the budget: {shown}")
