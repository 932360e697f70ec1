"""Seeds of a kind are those of which the profile says so, in order."""

from itertools import islice

import pytest

from esp.simulation.tiers import NODES, PARTITION
from tests.mutants.kinds import KINDS, PARTITION_KINDS, is_of_kind, seeds_of_kind
from tests.mutants.table import MUTANTS


@pytest.mark.parametrize("kind", KINDS)
def test_all_seeds_of_a_kind_are_found_and_no_other(kind):
    found = list(islice(seeds_of_kind(kind, 1), 3))
    assert found == [seed for seed in range(1, found[-1] + 1) if is_of_kind(kind, seed)]
    assert found[-1] > 3, "all runs are of it"


def test_every_kind_that_a_mutant_names_is_known():
    assert {mutant.kind for mutant in MUTANTS.values()} - {""} == {*KINDS}


def test_a_mutant_of_a_kind_is_of_the_one_tier_that_has_it():
    tiers = {mutant.name: mutant.tiers for mutant in MUTANTS.values() if mutant.kind}
    assert tiers == {name: (PARTITION if MUTANTS[name].kind in PARTITION_KINDS else NODES,) for name in tiers}
