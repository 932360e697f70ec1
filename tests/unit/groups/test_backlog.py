from esp.groups.backlog import SLICE_STEPS, Backlog
from esp.groups.steps import SteppedWork
from esp.model.now import Now


def counting(size, log):
    for number in range(size):
        log.append(number)
        yield
    return size


def add(backlog, key, size, log, done):
    backlog.add(key, SteppedWork(counting(size, log)), lambda result, now: done.append((key, result, now.wall_ms)))


def test_one_slice_takes_so_many_steps():
    backlog, log, done = Backlog(), [], []
    add(backlog, ("work", "g"), 2 * SLICE_STEPS, log, done)
    backlog.go_on(Now(0, 1))
    assert len(log) == SLICE_STEPS
    backlog.go_on(Now(0, 2))
    assert (len(log), done) == (2 * SLICE_STEPS, [])
    assert ("work", "g") in backlog
    backlog.go_on(Now(0, 3))
    assert done == [(("work", "g"), 2 * SLICE_STEPS, 3)]
    assert backlog.is_empty


def test_work_that_was_added_first_is_done_first():
    backlog, log, done = Backlog(), [], []
    for group in "ab":
        add(backlog, ("work", group), SLICE_STEPS, log, done)
    for time in range(4):
        assert not backlog.is_empty
        backlog.go_on(Now(0, time))
    assert [key for key, *_ in done] == [("work", "a"), ("work", "b")]


def test_work_replaces_what_has_its_key():
    backlog, log, other, done = Backlog(), [], [], []
    add(backlog, ("work", "g"), SLICE_STEPS + 1, log, done)
    backlog.go_on(Now(0, 0))
    add(backlog, ("work", "g"), 1, other, done)
    backlog.go_on(Now(0, 1))
    assert (len(log), other, done) == (SLICE_STEPS, [0], [(("work", "g"), 1, 1)])
    assert backlog.is_empty


def test_what_follows_from_work_may_be_more_of_it():
    backlog, log, done = Backlog(), [], []
    work = SteppedWork(counting(1, log))
    backlog.add(("work", "g"), work, lambda _result, _now: add(backlog, ("work", "g"), 1, log, done))
    backlog.go_on(Now(0, 0))
    assert not backlog.is_empty
    backlog.go_on(Now(0, 0))
    assert done == [(("work", "g"), 1, 0)]
    assert backlog.is_empty


def test_nothing_to_do_is_harmless():
    Backlog().go_on(Now(0, 0))
