from hypothesis import given
from hypothesis import strategies as st

from esp.groups.deadlines import DUE_MAX, Deadlines, Timer
from esp.model.now import Now


def at(us):
    return Now(us, 0)


def test_what_is_due_is_done_in_order():
    deadlines, done = Deadlines(), []
    for due in (30, 10, 20):
        deadlines.set(Timer(), due, lambda now, due=due: done.append(due))
    assert deadlines.next_us == 10
    deadlines.run(at(9))
    assert done == []
    deadlines.run(at(25))
    assert done == [10, 20]
    assert deadlines.next_us == 30


def test_timer_that_is_put_off_keeps_its_place_in_the_heap():
    deadlines, done, timer = Deadlines(), [], Timer()
    deadlines.set(timer, 10, lambda now: done.append(now.monotonic_us))
    for due in range(11, 1000):
        deadlines.put_off(timer, due)
    assert deadlines.next_us == 10, "too early, which is harmless"
    deadlines.run(at(10))
    assert (done, deadlines.next_us) == ([], 999)
    deadlines.run(at(999))
    assert (done, deadlines.next_us) == ([999], None)


def test_timer_that_is_put_off_by_a_moment_is_not_done_before():
    deadlines, done, timer = Deadlines(), [], Timer()
    deadlines.set(timer, 10, lambda now: done.append(now.monotonic_us))
    deadlines.put_off(timer, 11)
    deadlines.run(at(10))
    assert (done, deadlines.next_us) == ([], 11)


def test_what_is_set_meanwhile_is_left_for_the_next_time():
    deadlines, done, timer = Deadlines(), [], Timer()

    def again(now):
        done.append(now.monotonic_us)
        deadlines.set(timer, now.monotonic_us, again)

    deadlines.set(timer, 5, again)
    deadlines.run(at(5))
    assert done == [5]
    assert deadlines.next_us == 5


def test_what_is_cancelled_or_put_off_by_something_due_at_the_same_time_is_not_done():
    deadlines, done = Deadlines(), []
    first, cancelled, later = Timer(), Timer(), Timer()

    def act(_now):
        cancelled.cancel()
        deadlines.put_off(later, 20)

    deadlines.set(first, 5, act)
    deadlines.set(cancelled, 5, lambda now: done.append("cancelled"))
    deadlines.set(later, 5, lambda now: done.append("later"))
    deadlines.run(at(5))
    assert done == []
    deadlines.run(at(20))
    assert done == ["later"]


def test_thousands_of_things_are_done_in_parts():
    deadlines, done = Deadlines(), []
    for number in range(3 * DUE_MAX):
        deadlines.set(Timer(), 5, lambda _now, number=number: done.append(number))
    for parts in (1, 2, 3):
        assert deadlines.next_us == 5
        deadlines.run(at(9))
        assert done == list(range(parts * DUE_MAX))
    assert deadlines.next_us is None


operations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(0, 50)),
        st.tuples(st.just("put_off"), st.integers(0, 4), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("run"), st.just(0), st.integers(0, 10)),
    ),
    max_size=60,
)


@given(operations)
def test_timers_behave_as_a_plain_table_of_times(steps):
    deadlines, done, now = Deadlines(), [], 0
    timers = [Timer() for _ in range(5)]
    table = {}
    for step, index, value in steps:
        timer = timers[index]
        if step == "set":
            deadlines.set(timer, now + value, lambda _now, index=index: done.append(index))
            table[index] = now + value
        elif step == "put_off" and index in table:
            table[index] += value
            deadlines.put_off(timer, table[index])
        elif step == "cancel":
            timer.cancel()
            table.pop(index, None)
        elif step == "run":
            now += value
            due = sorted(index for index, at_us in table.items() if at_us <= now)
            done.clear()
            deadlines.run(at(now))
            assert sorted(done) == due
            for index in due:
                del table[index]
        earliest = min(table.values(), default=None)
        asked = deadlines.next_us
        assert (asked is None) == (earliest is None)
        assert asked is None or asked <= max(earliest, now)
