import importlib.util
import re
from pathlib import Path

import pytest

from esp.simulation.tiers import TIERS
from tests.mutants.patching import mutate
from tests.mutants.table import ALL, MUTANTS
from tests.mutants.transaction_rows import KNOWN_BY, NO_ROW, ROW_MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_every_mutant_finds_its_text_and_still_is_python(mutant):
    found = importlib.util.find_spec(mutant.module)
    source = Path(found.origin).read_text(encoding="utf-8")
    changed = mutate(source, mutant)
    assert changed != source
    compile(changed, mutant.module, "exec")


def test_there_are_enough_and_each_names_its_tiers():
    assert sum(not mutant.is_gap and not mutant.equivalent for mutant in MUTANTS.values()) >= 30
    assert all(mutant.tiers and set(mutant.tiers) <= {*TIERS} for mutant in MUTANTS.values())


def test_mutants_are_of_the_product_not_of_its_simulator():
    assert [name for name, mutant in MUTANTS.items() if mutant.module.startswith("esp.simulation")] == []


def test_each_of_kafkas_34_rows_has_mutants_and_each_other_invariant_a_reason():
    assert {each.row for each in ROW_MUTANTS} == set(KNOWN_BY) == {NO_ROW, *range(1, 35)}
    assert [each.name for each in ROW_MUTANTS if each.name not in MUTANTS] == []
    assert len({each.name for each in ROW_MUTANTS if each.row != NO_ROW}) >= 30
    assert [each.name for each in ROW_MUTANTS if each.other and not each.reason] == []
    assert [each.name for each in ROW_MUTANTS if each.other in KNOWN_BY[each.row]] == []
    assert all(MUTANTS[each.name].catchers == each.catchers for each in ROW_MUTANTS)


GAPS = [mutant for mutant in MUTANTS.values() if mutant.is_gap]


@pytest.mark.parametrize("mutant", GAPS, ids=lambda mutant: mutant.name)
def test_each_gap_names_a_test_that_is_there_or_why_there_is_none(mutant):
    assert len(mutant.covered_by) > 20
    if mutant.covered_by.startswith("tests/"):
        path, _, name = mutant.covered_by.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)


def test_only_a_gap_says_that_a_test_covers_it():
    assert [name for name, mutant in MUTANTS.items() if mutant.covered_by and not mutant.is_gap] == []


def test_no_name_stands_twice():
    assert len(ALL) == len(MUTANTS)
