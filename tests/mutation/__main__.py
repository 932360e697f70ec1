"""``python -m tests.mutation --count 300 --first 1``: random mutations of the cores and drivers, and which of them nobody notices.

Each number is a mutation, drawn by it from all that are possible. The exit status is 1 if one survives without a reason in the table of
:mod:`tests.mutation.equivalent`.
"""

import argparse
import os
import sys
from functools import partial
from multiprocessing import get_context
from random import Random

import typer

from tests.mutation.choosing import all_mutations
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.forking import import_everything
from tests.mutation.judging import Verdict, judge
from tests.mutation.operators import Mutation
from tests.mutation.reach import Reach, load

_reach: list[Reach] = []
"""The reach that this process has loaded, once it has."""


def _begin() -> None:
    _reach.append(load())


def _judge(mutation: Mutation, *, simulates: bool) -> Verdict:
    return judge(mutation, *_reach, simulates=simulates)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many")
    parser.add_argument("--first", type=int, default=1, help="the first number")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many at a time")
    parser.add_argument("--only", default="", help="mutations of paths that begin so")
    parser.add_argument(
        "--tests-only",
        action="store_true",
        help="by unit tests alone: a survivor may still be noticed by the simulator",
    )
    options = parser.parse_args()
    possible = [mutation for mutation in all_mutations() if mutation.path.startswith(options.only)]
    numbers = range(options.first, options.first + options.count)
    chosen = [possible[Random(number).randrange(len(possible))] for number in numbers]
    survivors = excused = 0
    import_everything()
    with get_context("fork").Pool(options.processes, _begin) as pool:
        for number, verdict in zip(
            numbers, pool.imap(partial(_judge, simulates=not options.tests_only), chosen), strict=True
        ):
            reason = EQUIVALENT.get(verdict.mutation.key)
            if verdict.noticed_by is not None:
                typer.echo(f"{number}: noticed by {verdict.noticed_by}, {verdict.mutation.path}")
            elif reason is not None:
                excused += 1
                typer.echo(f"{number}: survives, {reason}\n  {verdict.mutation}")
            else:
                survivors += 1
                typer.echo(f"{number}: SURVIVES\n  {verdict.mutation}")
    typer.echo(f"{len(chosen)} of {len(possible)} mutations: {survivors} survive, {excused} more with a reason")
    return 1 if survivors else 0


sys.exit(main())
