import pytest

from esp.groups.steps import STEP_ITEMS, SteppedWork, in_steps


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
