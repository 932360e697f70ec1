"""The table of what survives is about the product as it is."""

from tests.mutation.choosing import all_mutations
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.judging import find_tests, module_of


def test_every_survivor_of_the_table_can_still_be_put_in():
    possible = {mutation.key for mutation in all_mutations()}
    assert [key for key in EQUIVALENT if key not in possible] == []
    assert all(EQUIVALENT.values())


def test_there_are_thousands_and_each_module_has_some():
    mutations = all_mutations()
    assert len(mutations) > 5_000
    assert len({mutation.path for mutation in mutations}) > 150


def test_near_tests_are_those_of_the_module_and_of_others_that_import_it():
    near, others = find_tests("esp/controller/partition_change.py")
    assert near == ["tests/unit/controller/test_partition_change.py"]
    assert "tests/unit/controller/test_partition_history.py" in others
    assert module_of("esp/controller/__init__.py") == "esp.controller"
