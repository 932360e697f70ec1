"""One seed in one call, for fleets of processes, for shrinking and for mutants."""

import dataclasses
import gc
import time
from collections.abc import Callable, Collection
from typing import Final

from esp.simulation.excuses import tallied
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.outcome import Outcome

OBJECTS_BETWEEN_COLLECTIONS: Final = 200_000
"""The surplus of objects that came over those that went at which the garbage collector looks: a run leaves few cycles, and ends soon."""


def prepare_process() -> None:
    """Make a process faster that is there for runs alone: its garbage collector leaves the code's own objects out, and looks rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 20, 20)


def run_seed(
    seed: int,
    *,
    node_count: int | None = None,
    only: Collection[int] | None = None,
    keep: Callable[[str], None] | None = None,
) -> Outcome:
    """Run one seed to its end.

    Args:
        seed: decides everything.
        node_count: overrules what the seed says of the cluster's size.
        only: the places of the faults that are brought; None for all.
        keep: called with each line of the trace; None if the trace is not read.
    """
    before_s = time.process_time()
    with tallied() as excuses:
        outcome = Run(Profile.draw(seed, node_count=node_count), only=only, keep=keep).execute()
    return dataclasses.replace(outcome, excuses=dict(excuses), cpu_s=time.process_time() - before_s)
