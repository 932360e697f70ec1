"""``python -m tests.mutants``: the wall of known bugs."""

from pathlib import Path
from typing import Annotated

import typer

from tests.mutants.wall import PAGE, print_wall


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which; without any, all.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Most seeds for each; without it, as many as its tier is worth.")
    ] = None,
    first: Annotated[int | None, typer.Option(help="The first of them; without it, 1 but for a few mutants.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Size of the cluster; without it, the seed decides.")] = None,
    tier: Annotated[str | None, typer.Option(help="Only this tier: nodes, partition, quorum or log.")] = None,
    results: Annotated[
        Path | None, typer.Option(help="Keep the verdicts in this file, and pass over what it says is caught.")
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write the verdicts into the table of docs/SIMULATION.md.")
    ] = False,
) -> None:
    """Put known bugs back, one at a time, and count the seeds until each is caught; exit with 1 if one survives."""
    page = PAGE if write else None
    is_whole = print_wall(names or [], first=first, seeds=seeds, nodes=nodes, tier=tier, results=results, page=page)
    raise typer.Exit(0 if is_whole else 1)


typer.run(main)
