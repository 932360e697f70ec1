"""The simulator's command line."""

import sys
from typing import Annotated

import typer

from esp.simulation.coverage.report import print_coverage
from esp.simulation.fleet import Summary, TierSummary, run_seeds, run_tier
from esp.simulation.nodes_tier.nemesis import draw_plan
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.seeds import run_seed
from esp.simulation.shrink import shrink as shrink_places
from esp.simulation.tiers import NODES, TIERS
from esp.simulation.tiers import replay as replay_tier

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Runs whole clusters through faults, by seed.")

Nodes = Annotated[int | None, typer.Option(help="Size of the cluster; without it, the seed decides.")]
Only = Annotated[str, typer.Option(help="Places of the faults that are brought, separated by commas; without it, all.")]
Tier = Annotated[str, typer.Option(help="nodes, or a fast one: partition, quorum or log.")]


@app.command()
def run(
    seeds: Annotated[int, typer.Option(help="How many.")] = 100,
    first: Annotated[int, typer.Option(help="The first of them.")] = 1,
    nodes: Nodes = None,
    tier: Tier = NODES,
    processes: Annotated[int | None, typer.Option(help="How many at a time; without it, one for each core.")] = None,
) -> None:
    """Run many seeds; exit with 1 if an invariant was violated."""
    _require_tier(tier, nodes)

    def show(seed: int, violation: str | None) -> None:
        done = seed - first + 1
        if violation is not None:
            typer.echo(f"seed {seed}: {violation}", err=True)
        elif done % (50 if tier == NODES else 500) == 0:
            typer.echo(f"{done} of {seeds} seeds", err=True)

    of = range(first, first + seeds)
    summary: Summary | TierSummary
    if tier == NODES:
        summary = run_seeds(
            of, node_count=nodes, processes=processes, on_outcome=lambda each: show(each.seed, each.violation)
        )
    else:
        summary = run_tier(tier, of, processes=processes, on_found=lambda seed, found: show(seed, found.violation))
    for line in summary.lines():
        typer.echo(line)
    raise typer.Exit(1 if summary.failed else 0)


@app.command()
def replay(seed: int, nodes: Nodes = None, only: Only = "", tier: Tier = NODES) -> None:
    """Run one seed with a readable trace, which the tiers partition and quorum lack; exit with 1 if an invariant was violated."""
    _require_tier(tier, nodes)
    if tier != NODES:
        if only:
            raise typer.BadParameter("only clusters of whole nodes have a plan of faults", param_hint="--only")
        found = replay_tier(tier, seed, typer.echo)
        typer.echo(f"{found.violation or 'no violation'}; {found.cpu_s:.1f} CPU-seconds")
        raise typer.Exit(1 if found.violation else 0)
    profile = Profile.draw(seed, node_count=nodes)
    typer.echo(f"{profile}\n")
    for place, fault in enumerate(draw_plan(profile)):
        typer.echo(f"fault {place:3} at {fault.at_s:7.3f} s: {fault}")
    typer.echo("")
    outcome = run_seed(seed, node_count=nodes, only=_places(only), keep=typer.echo)
    typer.echo(f"\n{outcome.details}" if outcome.details else "")
    typer.echo(
        f"{outcome.violation or 'no violation'}; {outcome.simulated_s:.1f} s simulated in {outcome.cpu_s:.1f} CPU-seconds, "
        f"{outcome.faults} faults, {outcome.acked_records} records acknowledged, trace {outcome.digest}"
    )
    raise typer.Exit(1 if outcome.violation else 0)


@app.command()
def shrink(seed: int, nodes: Nodes = None) -> None:
    """Find fewer faults of a seed that violate the same invariant."""
    profile = Profile.draw(seed, node_count=nodes)
    plan = draw_plan(profile)
    wanted = run_seed(seed, node_count=nodes).invariant
    if wanted is None:
        typer.echo(f"Seed {seed} violates nothing.")
        raise typer.Exit(1)

    def fails(places: object) -> bool:
        found = run_seed(seed, node_count=nodes, only=list(places)).invariant == wanted  # type: ignore[call-overload]  # a sequence
        typer.echo("x" if found else ".", nl=False, err=True)
        return bool(found)

    left = shrink_places(range(len(plan)), fails)
    typer.echo("", err=True)
    typer.echo(f"{wanted} with {len(left)} of {len(plan)} faults:")
    for place in left:
        typer.echo(f"  fault {place:3} at {plan[place].at_s:7.3f} s: {plan[place]}")
    size = f" --nodes {nodes}" if nodes else ""
    only = ",".join(map(str, left)) or "none"
    typer.echo(f"again: {sys.executable} -m esp.simulation replay {seed}{size} --only {only}")


@app.command()
def coverage(
    seeds: Annotated[int, typer.Option(help="How many of whole nodes; of each fast tier as many or more.")] = 40,
    first: Annotated[int, typer.Option(help="The first of those that may be chosen.")] = 1,
    processes: Annotated[int | None, typer.Option(help="How many at a time; without it, one for each core.")] = None,
) -> None:
    """List the functions of the product that no run enters; exit with 1 if one of them has no reason."""
    raise typer.Exit(0 if print_coverage(seeds, first=first, processes=processes) else 1)


def _require_tier(tier: str, nodes: int | None) -> None:
    if tier not in TIERS:
        raise typer.BadParameter(f"there is no tier {tier!r}; the tiers are {', '.join(TIERS)}", param_hint="--tier")
    if tier != NODES and nodes is not None:
        raise typer.BadParameter("only clusters of whole nodes have a size that can be chosen", param_hint="--nodes")


def _places(text: str) -> list[int] | None:
    if not text:
        return None
    return [] if text == "none" else [int(place) for place in text.split(",")]
