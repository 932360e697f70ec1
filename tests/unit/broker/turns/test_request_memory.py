from hypothesis import given
from hypothesis import strategies as st

from esp.broker.turns.request_memory import NO_LIMIT, RequestMemory


def test_without_a_limit_nobody_waits():
    memory = RequestMemory(NO_LIMIT)
    assert all(memory.take(1 << 40, _never) for _ in range(10))


def test_a_request_that_is_larger_than_all_there_is_gets_it_alone():
    memory = RequestMemory(100)
    assert memory.take(1000, _never)
    told = []
    assert not memory.take(1, lambda: told.append(1))
    memory.give_back(1000)
    assert told == [1]
    assert memory.taken_bytes == 1


def _never():
    raise AssertionError("there was room at once")


@given(st.lists(st.tuples(st.integers(1, 150), st.booleans()), max_size=60))
def test_the_limit_holds_everybody_is_served_in_order_and_nothing_is_lost(steps):
    memory = RequestMemory(100)
    held, served, asked = [], [], []

    def on_room(number, size):
        def granted():
            served.append(number)
            held.append(size)

        return granted

    for number, (size, gives_back) in enumerate(steps):
        asked.append(number)
        if memory.take(size, on_room(number, size)):
            served.append(number)
            held.append(size)
        assert memory.taken_bytes == sum(held)
        assert memory.taken_bytes <= 100 or len(held) == 1
        if gives_back and held:
            memory.give_back(held.pop(0))
            assert memory.taken_bytes <= 100 or len(held) == 1
    while held:
        memory.give_back(held.pop(0))
    assert served == asked
    assert memory.taken_bytes == 0


def test_who_leaves_the_queue_lets_the_next_one_through():
    memory = RequestMemory(100)
    told = []
    large, small = lambda: told.append("large"), lambda: told.append("small")
    assert memory.take(60, _never)
    assert not memory.take(90, large)
    assert not memory.take(40, small)
    memory.leave(large)
    assert told == ["small"]
