"""``esp rebalance plan`` and ``explain``: a plan is made, checked, shown and written down."""

import time
from typing import Annotated, Final

import typer

from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.cli.options import BootstrapServer, Json
from esp.cli.output import print_json, print_line, working
from esp.cli.rebalance.text import plan_as_json, plan_lines
from esp.model.errors import OperatorError
from esp.placement.limits import Limits
from esp.rebalance.intent_words import FORMS, parse_intent
from esp.rebalance.plan_file import PlanFile, read_plan, write_plan
from esp.rebalance.planning import plan_for
from esp.rebalance.reassignment_json import write_reassignment
from esp.rebalance.sizes import parse_size

PlanPath = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's file.")]
_DEFAULTS: Final = Limits()
DEFAULT_BUDGET: Final = "20M"
"""The rate that a small machine can spare beside its producers. Large machines have more: ``--max-produce-p99`` finds out how much."""


def plan(
    intent: Annotated[list[str], typer.Argument(metavar="INTENT", help=FORMS)],
    bootstrap_server: BootstrapServer = "127.0.0.1:9092",
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Where to write the plan.")] = None,
    reassignment_json_file: Annotated[
        str | None,
        typer.Option(
            "--reassignment-json-file",
            metavar="FILE",
            help="Also write JSON for esp reassign-partitions.",
        ),
    ] = None,
    budget: Annotated[
        str,
        typer.Option("--budget", metavar="BYTES", help="Bytes/s for each broker and direction, as in 50M."),
    ] = DEFAULT_BUDGET,
    moves_per_broker: Annotated[
        int, typer.Option("--moves-per-broker", metavar="N", help="Concurrent copies of a broker.")
    ] = _DEFAULTS.moves_per_broker_max,
    disk_used_max: Annotated[
        float, typer.Option("--disk-used-max", metavar="PART", help="Highest fill level of a disk, 0 to 1.")
    ] = _DEFAULTS.disk_used_max,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="PART", help="Imbalance that still counts as even.")
    ] = _DEFAULTS.tolerance,
    seed: Annotated[int, typer.Option("--seed", help="Seed of choices between equal moves.")] = 0,
    json: Json = False,
) -> None:
    """Make a plan and show what it costs. Nothing moves.

    [bold]Examples[/bold]

    esp rebalance plan spread --out spread.json

    esp rebalance plan drain 3 --budget 20M

    esp rebalance plan rf flights=3

    esp rebalance plan swap 1=4

    esp rebalance plan move flights:0=2,3,4
    """
    wanted = parse_intent(intent)
    try:
        limits = Limits(parse_size("--budget", budget), disk_used_max, moves_per_broker, tolerance)
    except ValueError as error:
        raise OperatorError(f"the limits are not valid: {error}", "See esp rebalance plan --help.") from error
    with ReassignmentsAdmin(bootstrap_server) as admin, working("examining the cluster"):
        file = plan_for(admin, wanted, limits, seed, int(time.time() * 1000))
    if json:
        print_json(plan_as_json(file))
    else:
        for line in plan_lines(file, steps=False):
            print_line(line)
    if file.plan.is_empty:
        return
    if reassignment_json_file is not None:
        _write_reassignment(reassignment_json_file, file)
    path = out or f"rebalance-{intent[0]}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    write_plan(path, file)
    if not json:
        print_line("")
        print_line(f"Written to {path}. Begin with: esp rebalance apply {path}")


def explain(
    path: PlanPath,
    steps: Annotated[bool, typer.Option("--steps/--no-steps", help="Show every move of every step.")] = True,
    json: Json = False,
) -> None:
    """Show the moves of a plan and their reasons, the cost of each step, and the assumptions."""
    file = read_plan(path)
    if json:
        print_json(plan_as_json(file))
        return
    for line in plan_lines(file, steps=steps):
        print_line(line)


def _write_reassignment(path: str, file: PlanFile) -> None:
    text = write_reassignment({move.name: move.after for move in file.plan.moves})
    try:
        with open(path, "w", encoding="utf-8") as out:
            out.write(text + "\n")
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error.strerror}", "Name another file.") from error
