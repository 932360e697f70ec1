"""The process of one mutant: ``python -m tests.mutants.process NAME TIER FIRST SEEDS [NODES]``.

``unmutated`` in place of a name runs the product as it is. What came of it is one line of JSON on stdout.
"""

import json
import sys
from itertools import count

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
    kind = MUTANTS[name].kind if name != UNMUTATED else ""
    if kind:
        from tests.mutants.kinds import seeds_of_kind  # noqa: PLC0415 - it needs the profiles of runs

        chosen = seeds_of_kind(kind, first, nodes)
    else:
        chosen = count(first)
    cpu_s = 0.0
    done = last = 0
    found = Found(None, None, 0.0, {})
    while done < seeds and found.violation is None:
        last = next(chosen)
        found = RUNS[tier](last, nodes)
        done += 1
        cpu_s += found.cpu_s
    told = {"invariant": found.invariant, "violation": found.violation, "seeds": done, "last": last, "cpu_s": cpu_s}
    json.dump(told, sys.stdout)


main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
