"""The process of some seeds of one tier with a mutation in the product: ``python -m tests.mutation.simulating TIER SEED ...``.

Its exit status is 1 if a seed found a violation, or anything else went wrong.
"""

import logging
import sys

import typer

import tests.mutation.applying  # noqa: F401 - before the product
from esp.simulation.tiers import NODES, RUNS

logging.disable(logging.CRITICAL)
tier, *seeds = sys.argv[1:]
if tier == NODES:
    from esp.simulation.seeds import prepare_process

    prepare_process()
for seed in map(int, seeds):
    found = RUNS[tier](seed, None)
    if found.violation is not None:
        typer.echo(f"seed {seed}: {found.violation}")
        sys.exit(1)
