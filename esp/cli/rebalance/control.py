"""``esp rebalance status``, ``pause``, ``cancel`` and ``rollback``: show a plan that goes on, and give orders to its executor."""

import os
import secrets
import time
from typing import Annotated, Final

import typer

from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_line, print_warning
from esp.cli.rebalance.display import print_report
from esp.cli.rebalance.plan import PlanPath
from esp.cli.rebalance.run import SystemTimer, carry_out, hold
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import ALL_BROKERS, FOLLOWER_THROTTLED_RATE, ReassignmentAdmin
from esp.rebalance.execution import Execution, Outcome, Patience
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Sample, Wish, Wished
from esp.rebalance.looking import look_for_executor
from esp.rebalance.pace import Pace
from esp.rebalance.plan_file import PlanFile, read_plan, write_plan
from esp.rebalance.report import Report, report_on
from esp.rebalance.rollback import plan_rollback
from esp.rebalance.stages import Stage
from esp.rebalance.staleness import check_before_resume, check_cluster

_OBEYED_WITHIN_S: Final = 120.0
_LOOK_EVERY_S: Final = 0.2


def status(path: PlanPath, bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """Show the progress of a plan, from the cluster and from the journal if it is here."""
    file = read_plan(path)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        check_cluster(file.plan, admin)
        report = _look(admin, journal, file)
    print_report(report, json=json)


def pause(path: PlanPath, bootstrap_server: BootstrapServer = "127.0.0.1:9092") -> None:
    """Begin no more moves, and throttle active ones: the bytes that they have copied are kept."""
    file = read_plan(path)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        check_before_resume(file.plan, admin)
        _require_unfinished(journal, path)
        journal.add(Wished(SystemTimer().now_ms(), Wish.PAUSE))
        nobody_obeys = journal.lock()
        if nobody_obeys and any(move.stage.is_active for move in _look(admin, journal, file).moves):
            hold(admin)
        print_line(f"Paused. Continue with: esp rebalance resume {path}")


def cancel(path: PlanPath, bootstrap_server: BootstrapServer = "127.0.0.1:9092", json: Json = False) -> None:
    """Cancel active moves, begin no more, and remove the throttles. Completed moves stay."""
    file = read_plan(path)
    with Journal(path, file.plan_id) as journal, ReassignmentsAdmin(bootstrap_server) as admin:
        check_cluster(file.plan, admin)
        _require_unfinished(journal, path)
        _cancel(admin, journal, file, json=json)


def rollback(
    path: PlanPath,
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Where to write the rollback plan.")] = None,
    json: Json = False,
) -> None:
    """Cancel the active moves of a plan, and reverse the completed ones. The rollback is a plan like any other."""
    file = read_plan(path)
    back_path = out or f"{path}.rollback"
    if os.path.exists(back_path):
        raise OperatorError(f"{back_path} exists already", f"Continue with: esp rebalance resume {back_path}")
    with ReassignmentsAdmin(bootstrap_server) as admin:
        with Journal(path, file.plan_id) as journal:
            check_before_resume(file.plan, admin)
            if journal.history.began_ms is None:
                print_warning(
                    f"{path} has no journal here: every partition that is at its target counts as moved by the plan"
                )
            if journal.history.finished is None:
                _cancel(admin, journal, file, json=json)
            done = _done(_look(admin, journal, file))
        made = plan_rollback(file.plan, done)
        if not made.moves:
            print_line("The plan has moved nothing: there is nothing to roll back.")
            return
        back = PlanFile(secrets.token_hex(8), SystemTimer().now_ms(), made)
        write_plan(back_path, back)
        with Journal(back_path, back.plan_id) as journal:
            journal.lock()
            pace = Pace(made.limits.broker_bytes_per_second)
            outcome = carry_out(admin, journal, back, pace, Patience(), json=json)
    if outcome is not Outcome.DONE:
        raise OperatorError(f"the rollback is not complete: {outcome.value}", f"See {back_path}.")


def _done(report: Report) -> set[TopicPartition]:
    return {move.partition for move in report.moves if move.stage is Stage.DONE}


def _require_unfinished(journal: Journal, path: str) -> None:
    finished, successor = journal.history.finished, journal.history.successor
    if finished is not None and successor is not None:
        raise OperatorError(
            f"the plan {path} has stopped, and another plan continues it", f"Use that plan: {successor}"
        )
    if finished is not None:
        raise OperatorError(
            f"the plan {path} is over: {finished.outcome}",
            "Roll it back with `esp rebalance rollback`, or make a new plan.",
        )


def _look(admin: ReassignmentAdmin, journal: Journal, file: PlanFile) -> Report:
    """The progress of a plan now, in whatever process it is carried out."""
    execution = Execution(file.plan, Pace(file.plan.limits.broker_bytes_per_second), Patience())
    now_ms = SystemTimer().now_ms()
    history = journal.history
    if history.finished is not None:  # what others have done since to the same partitions was not done by this plan
        for moving in execution.moves:
            ended = history.ended.get(moving.move.name)
            if ended is not None and ended.stage != Stage.DONE.value:
                moving.end(Stage(ended.stage), ended.reason)
    execution.observe(look_for_executor(admin, execution), now_ms)
    for moving in execution.moves:
        ended = history.ended.get(moving.move.name)
        if ended is not None and not moving.stage.is_over and not moving.stage.is_active:
            moving.end(Stage(ended.stage), ended.reason)
    execution.wish = journal.history.wish
    execution.judge(now_ms)
    limit = admin.settings([ALL_BROKERS], [FOLLOWER_THROTTLED_RATE])[ALL_BROKERS].get(FOLLOWER_THROTTLED_RATE)
    samples = [*journal.history.samples, Sample(now_ms, sum(moving.copied_bytes for moving in execution.moves))]
    return report_on(execution, samples, limit_bytes_per_second=int(limit) if limit is not None else None)


def _cancel(admin: ReassignmentAdmin, journal: Journal, file: PlanFile, *, json: bool) -> None:
    """Order the end of a plan, then carry the cancellation out, or wait for the process that carries the plan out to do so."""
    journal.add(Wished(SystemTimer().now_ms(), Wish.CANCEL))
    if journal.lock():
        carry_out(admin, journal, file, Pace(file.plan.limits.broker_bytes_per_second), Patience(), json=json)
        return
    deadline_s = time.monotonic() + _OBEYED_WITHIN_S
    while journal.history.finished is None and not journal.lock():
        if time.monotonic() >= deadline_s:
            raise OperatorError(
                f"the process that runs the plan has not stopped within {_OBEYED_WITHIN_S:.0f} s",
                "End that process, and cancel again.",
            )
        time.sleep(_LOOK_EVERY_S)
        journal.catch_up()
    if journal.history.finished is None:
        carry_out(admin, journal, file, Pace(file.plan.limits.broker_bytes_per_second), Patience(), json=json)
    else:
        print_line("Cancelled.")
