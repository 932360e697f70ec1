from hypothesis import given
from hypothesis import strategies as st

from esp.simulation.shrink import shrink


@given(st.integers(1, 60), st.data())
def test_what_is_left_is_what_matters(count, data):
    needed = data.draw(st.sets(st.integers(0, count - 1), max_size=5))
    assert set(shrink(range(count), lambda part: needed <= set(part))) == needed


def test_every_part_that_is_tried_keeps_the_order():
    def fails(part):
        assert list(part) == sorted(part)
        return {3, 9} <= set(part)

    assert shrink(range(20), fails) == [3, 9]


def test_the_number_of_tries_is_bounded():
    tries = []
    shrink(range(1000), lambda part: tries.append(part) or len(part) > 900, tries_max=50)
    assert len(tries) <= 51
