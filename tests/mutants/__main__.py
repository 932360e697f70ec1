"""``python -m tests.mutants``: the wall of known bugs."""

from typing import Annotated

import typer

from tests.mutants.wall import print_wall


def main(
    names: Annotated[list[str] | None, typer.Argument(help="Which; without any, all.")] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Most seeds for each; without it, as many as its tier is worth.")
    ] = None,
    first: Annotated[int | None, typer.Option(help="The first of them; without it, 1 but for a few mutants.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Size of the cluster; without it, the seed decides.")] = None,
    tier: Annotated[str | None, typer.Option(help="Only this tier: nodes, partition, quorum or log.")] = None,
) -> None:
    """Put known bugs back, one at a time, and count the seeds until each is caught; exit with 1 if one survives."""
    raise typer.Exit(0 if print_wall(names or [], first=first, seeds=seeds, nodes=nodes, tier=tier) else 1)


typer.run(main)
