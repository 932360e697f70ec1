"""Fair shares: they add up, keep to what racks allow, and are even beyond that."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.placement.shares import fair_shares

_RACKS = st.lists(st.integers(1, 5), min_size=1, max_size=4).map(
    lambda sizes: {f"r{rack}": [10 * rack + number for number in range(size)] for rack, size in enumerate(sizes)}
)


@given(_RACKS, st.dictionaries(st.integers(1, 5), st.integers(0, 10**12), max_size=3))
def test_shares_add_up_to_what_is_there(racks, weights):
    shares = fair_shares(racks, weights)
    brokers = sum(map(len, racks.values()))
    assert sum(shares.values()) == pytest.approx(sum(min(factor, brokers) * w for factor, w in weights.items()))


def test_without_racks_all_get_the_same():
    assert fair_shares({None: [1, 2, 3, 4]}, {2: 100}) == pytest.approx({1: 50, 2: 50, 3: 50, 4: 50})


def test_rack_of_one_holds_a_copy_of_everything_if_there_are_as_many_racks_as_replicas():
    assert fair_shares({"a": [1], "b": [2, 3]}, {2: 100}) == pytest.approx({1: 100, 2: 50, 3: 50})


def test_large_rack_holds_no_more_than_one_copy_while_there_are_others():
    shares = fair_shares({"a": [1, 2, 3, 4], "b": [5], "c": [6]}, {2: 100})
    assert shares == pytest.approx({1: 25, 2: 25, 3: 25, 4: 25, 5: 50, 6: 50})


def test_spare_replicas_go_where_brokers_are_many():
    assert fair_shares({"a": [1, 2, 3], "b": [4]}, {3: 100}) == pytest.approx(
        {1: 200 / 3, 2: 200 / 3, 3: 200 / 3, 4: 100}
    )


def test_nothing_is_shared_as_nothing():
    assert fair_shares({"a": [1]}, {}) == {1: 0}
