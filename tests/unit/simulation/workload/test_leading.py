"""The assignments of leaders of the classic protocol: everything has a member, balanced, and nothing is given away that another one has."""

from hypothesis import given
from hypothesis import strategies as st

from esp.groups.embedded_protocol import Subscription
from esp.model.ids import TopicPartition
from esp.simulation.workload.leading import share_out

ALL = [TopicPartition("t", number) for number in range(7)]


def members(owned):
    return {name: Subscription(("t",), tuple(mine), None) for name, mine in owned.items()}


@given(st.dictionaries(st.sampled_from(ALL), st.sampled_from("abc")))
def test_in_rounds_the_group_comes_to_rest_and_no_partition_has_two_owners(owners):
    owned = {name: [one for one, owner in owners.items() if owner == name] for name in "abcd"}
    for _ in range(3):
        shares = share_out(members(owned), ALL)
        for name, partitions in shares.items():
            for other, mine in owned.items():
                assert other == name or not set(partitions) & set(mine), "it is another one's still"
        owned = shares
    assert sorted(one for mine in owned.values() for one in mine) == ALL
    sizes = [len(mine) for mine in owned.values()]
    assert max(sizes) - min(sizes) <= 1
    assert share_out(members(owned), ALL) == owned


def test_nobody_gets_what_it_does_not_read():
    shares = share_out({"a": Subscription(("u",), (), None), "b": Subscription(("t",), (), None)}, ALL)
    assert shares["a"] == []
    assert sorted(shares["b"]) == ALL
