"""Seeds of a kind are those of which the profile says so, in order."""

from itertools import islice

import pytest

from esp.simulation.nodes_tier.profile import Profile
from tests.mutants.kinds import KINDS, seeds_of_kind
from tests.mutants.table import MUTANTS


@pytest.mark.parametrize("kind", KINDS)
def test_all_seeds_of_a_kind_are_found_and_no_other(kind):
    found = list(islice(seeds_of_kind(kind, 1), 5))
    assert found == [seed for seed in range(1, found[-1] + 1) if KINDS[kind](Profile.draw(seed))]


def test_without_a_kind_all_seeds_count():
    assert list(islice(seeds_of_kind("", 7), 3)) == [7, 8, 9]


def test_every_kind_that_a_mutant_names_is_known():
    assert {mutant.kind for mutant in MUTANTS.values()} - {""} == KINDS.keys()
