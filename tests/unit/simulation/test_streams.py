from random import Random

from hypothesis import given
from hypothesis import strategies as st

from esp.simulation.streams import between, fork, stream


@given(st.integers(0, 1000), st.integers(-5, 70_000), st.integers(0, 70_000))
def test_number_of_a_range_is_what_randint_gives(seed, least, size):
    fast, slow = Random(seed), Random(seed)
    for _ in range(5):
        assert between(fast, least, least + size) == slow.randint(least, least + size)
    assert fast.random() == slow.random()


def test_streams_of_two_purposes_or_seeds_have_nothing_in_common():
    firsts = {stream(purpose, seed).random() for purpose in ("network", "node 1") for seed in (1, 2)}
    assert len(firsts) == 4
    assert stream("network", 1).random() in firsts


def test_fork_depends_on_where_its_stream_stands_and_on_nothing_else():
    first, second = Random(1), Random(1)
    assert fork(first).random() == fork(second).random() != fork(first).random()
