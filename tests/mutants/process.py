"""The process of one mutant: ``python -m tests.mutants.process NAME TIER FIRST SEEDS [NODES]``.

``unmutated`` in place of a name runs the product as it is. What came of it is one line of JSON on stdout.
"""

import json
import sys

from tests.mutants.mutant import UNMUTATED
from tests.mutants.patching import install
from tests.mutants.table import MUTANTS


def main(name: str, tier: str, first: int, seeds: int, nodes: int | None = None) -> None:
    """Install the mutant, and run seeds until one finds a violation."""
    if name != UNMUTATED:
        install(MUTANTS[name])
    # The product is imported only now, with the bug in it.
    from esp.simulation.tiers import NODES, RUNS, Found  # noqa: PLC0415
    from esp.simulation.trace import silence  # noqa: PLC0415

    silence()
    if tier == NODES:
        from esp.simulation.seeds import prepare_process  # noqa: PLC0415 - the fast tiers do without the whole product

        prepare_process()
    cpu_s = 0.0
    count = 0
    found = Found(None, None, 0.0)
    while count < seeds and found.violation is None:
        found = RUNS[tier](first + count, nodes)
        count += 1
        cpu_s += found.cpu_s
    json.dump({"invariant": found.invariant, "violation": found.violation, "seeds": count, "cpu_s": cpu_s}, sys.stdout)


main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
