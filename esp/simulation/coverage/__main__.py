"""The process of some seeds of one tier: ``python -m esp.simulation.coverage TIER SEED ...``.

The functions that were entered, and the violations, are one line of JSON on stdout.
"""

import json
import sys
from collections.abc import Iterable

from esp.simulation.coverage.marking import install


def main(tier: str, seeds: Iterable[int]) -> None:
    """Have functions note that they are entered, and run the seeds."""
    entered: dict[str, None] = {}
    install(entered)
    # The product is imported only now.
    from esp.simulation.tiers import RUNS  # noqa: PLC0415
    from esp.simulation.trace import silence  # noqa: PLC0415

    silence()
    violations = {}
    for seed in seeds:
        found = RUNS[tier](seed, None)
        if found.violation is not None:
            violations[seed] = found.violation
    json.dump({"entered": list(entered), "violations": violations}, sys.stdout)


main(sys.argv[1], map(int, sys.argv[2:]))
