"""A few whole runs of each size with everything that the faults can do: what ``make sim`` does with hundreds."""

import pytest

from esp.simulation.seeds import run_seed

SEEDS = [
    *((seed, 1) for seed in (21, 22, 25, 28)),
    *((seed, 3) for seed in (1, 2, 3, 5, 8, 12, 15, 6003, 6132)),
    *((seed, 5) for seed in (1, 3, 4, 7)),
    # These say their size themselves.
    *((seed, None) for seed in (3028, 3031, 5118)),
]


@pytest.mark.parametrize(("seed", "nodes"), SEEDS)
def test_a_cluster_keeps_what_it_promises(seed, nodes):
    outcome = run_seed(seed, node_count=nodes)
    assert outcome.violation is None
    assert outcome.acked_records > 0
    assert outcome.faults > 0
