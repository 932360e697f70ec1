"""The groups that hold the records of a log (HOLD-1, HOLD-5)."""

from hypothesis import given
from hypothesis import strategies as st

from esp.model.retention_hold import CAP_BYTES, CAP_MS, BrokenHold, RetentionHold
from esp.replication.log_holds import UNHEARD, Break, GroupHold, LogHolds, find_breaks, find_hold


def holds(names, positions, *, high_watermark=100, log=None):
    return (log or LogHolds(0)).find_holds(names, positions, high_watermark)


def test_groups_hold_from_their_offsets():
    assert holds(["a", "b-*"], {"a": 5, "b-1": 7}) == (GroupHold("a", 5), GroupHold("b-1", 7))


def test_an_exact_name_holds_everything_before_its_first_commit_and_a_pattern_nothing():
    assert holds(["a"], {}) == (GroupHold("a", 0),)
    assert holds(["a*"], {}) == ()
    assert holds(["a", "*"], {"b": 5}) == (GroupHold("b", 5), GroupHold("a", 0))


def test_a_name_that_is_listed_twice_holds_once():
    assert holds(["a", "a"], {}) == (GroupHold("a", 0),)


def test_a_group_that_was_deleted_holds_nothing_and_holds_again_when_it_commits():
    log = LogHolds(3)
    assert holds(["a"], {"a": 5}, log=log) == (GroupHold("a", 5),)
    assert holds(["a"], {}, log=log) == ()
    assert holds(["a"], {"a": 2}, log=log) == (GroupHold("a", 2),)


def test_a_new_leader_takes_a_named_group_without_an_offset_for_one_that_has_not_begun():
    log = LogHolds(3)
    holds(["a"], {"a": 5}, log=log)
    assert holds(["a"], {}, log=LogHolds(4)) == (GroupHold("a", 0),)


def test_silence_of_a_coordinator_is_no_deletion():
    log = LogHolds(3)
    holds(["a"], {"a": 5}, log=log)
    assert holds(["a"], None, log=log) == (GroupHold(UNHEARD, 0),)
    assert holds(["a"], {"a": 5}, log=log) == (GroupHold("a", 5),)


def test_an_offset_that_is_not_of_this_log_says_nothing_of_it():
    assert holds(["a"], {"a": 100}) == (GroupHold("a", 100),)
    assert holds(["a"], {"a": 101}) == (GroupHold("a", 0),)
    assert holds(["a"], {"a": -1}) == (GroupHold("a", 0),)


def test_the_least_offset_holds_with_the_caps_of_the_topic():
    assert find_hold([GroupHold("a", 5), GroupHold("b", 3)], 10, 20) == RetentionHold(3, 10, 20)
    assert find_hold([], 10, 20) is None


def test_each_group_is_told_what_it_lost_by_which_cap():
    broken = [BrokenHold(CAP_MS, 3, 10), BrokenHold(CAP_BYTES, 10, 20)]
    assert find_breaks([GroupHold("a", 3), GroupHold("b", 12), GroupHold("c", 20)], broken) == [
        Break("a", 3, 10, CAP_MS),
        Break("a", 10, 20, CAP_BYTES),
        Break("b", 12, 20, CAP_BYTES),
    ]
    assert find_breaks([GroupHold("a", 3)], []) == []


COMMITS = st.dictionaries(st.sampled_from(["a", "b", "c-1", "c-2"]), st.integers(0, 20))


@given(st.lists(st.one_of(st.none(), COMMITS), max_size=12), st.integers(0, 20))
def test_nothing_that_a_group_has_not_read_is_free(told, high_watermark):
    """Against a list of all that was ever told."""
    log, past = LogHolds(0), []
    names = ["a", "b", "c-*"]
    for positions in told:
        hold = find_hold(log.find_holds(names, positions, high_watermark), -1, -1)
        free = high_watermark if hold is None else hold.from_offset
        if positions is None:
            assert free == 0
        else:
            past.append(positions)
            for group in ("a", "b"):
                if not any(group in earlier for earlier in past):
                    assert free == 0, "it has not begun"
            for offset in positions.values():
                assert free <= offset
            if all(any(group in earlier for earlier in past) for group in ("a", "b")) and all(
                offset <= high_watermark for offset in positions.values()
            ):
                assert free == min(positions.values(), default=high_watermark), "and no more than that is held"
