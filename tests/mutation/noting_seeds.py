"""The process that notes which functions each seed of a tier enters, and how long it takes.

``python -m tests.mutation.noting_seeds TIER FIRST SEEDS PATH``
"""

import sys
import time

from esp.simulation.coverage.marking import install
from tests.mutation.reach import MUTATED, Note, write


def main(tier: str, first: int, seeds: int, path: str) -> None:
    """Run the seeds, and add one line of each to the file of the path."""
    entered: dict[str, None] = {}
    install(entered, MUTATED)
    # The product is imported only now.
    from esp.simulation.tiers import RUNS  # noqa: PLC0415
    from esp.simulation.trace import silence  # noqa: PLC0415

    silence()
    for seed in range(first, first + seeds):
        began_s = time.process_time()
        RUNS[tier](seed, None)
        write(path, Note(tier, str(seed), time.process_time() - began_s, tuple(entered)))
        entered.clear()


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
