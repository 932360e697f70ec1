from itertools import chain, count, repeat

import pytest

from esp.groups.steps import RESTARTS_MAX, STEP_ITEMS, SteppedWork, in_steps, on_a_basis


def counting(size):
    for _ in range(size):
        yield
    return size


def test_items_come_in_their_order_so_many_at_a_time():
    items = list(range(2 * STEP_ITEMS + 1))
    found = list(in_steps(items))
    assert [len(some) for some in found] == [STEP_ITEMS, STEP_ITEMS, 1]
    assert [item for some in found for item in some] == items


def test_no_items_make_no_step():
    assert list(in_steps(())) == []


def test_work_goes_on_where_it_stopped():
    work = SteppedWork(counting(5))
    assert not work.go_on(3)
    assert not work.go_on(2)
    assert work.go_on(1)
    assert work.result == 5


def test_work_that_is_done_within_its_steps_is_done_at_once():
    work = SteppedWork(counting(5))
    assert work.go_on(100)
    assert work.result == 5


def test_an_error_comes_where_it_happens():
    def failing():
        yield
        raise ValueError("broken")

    work = SteppedWork(failing())
    assert not work.go_on(1)
    with pytest.raises(ValueError, match="broken"):
        work.go_on(1)


def restarting(bases):
    """Work of three steps, whose basis is the next of these before each; its result, and how often it has begun."""
    begun = []

    def begin():
        begun.append(None)
        return counting(3)

    work = SteppedWork(on_a_basis(lambda: next(bases), begin))
    assert work.go_on(100)
    return work.result, len(begun)


def test_work_whose_basis_stays_begins_once():
    assert restarting(repeat(7)) == ((7, 3), 1)


def test_work_whose_basis_changes_begins_again_on_the_new_one():
    assert restarting(chain([1, 1], repeat(2))) == ((2, 3), 2)


def test_work_whose_basis_changes_all_the_time_is_done_on_the_last_one_on_which_it_began():
    assert restarting(count()) == ((RESTARTS_MAX, 3), 1 + RESTARTS_MAX)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_work_that_is_not_wanted_any_more_ends(steps):
    assert restarting(chain(repeat(1, steps), repeat(None))) == (None, 1)
