"""The quorum of controllers."""

import pytest

from esp.doctor.snapshot import NEVER_MS, VOTER_LAG_MAX_MS
from tests.unit.doctor.snapshots import hits, places, quorum, snapshot

LATE = VOTER_LAG_MAX_MS + 1


def judged(rule, *behind_ms, brokers=3):
    return places(rule, snapshot(brokers, [], quorum=quorum(*behind_ms)))


@pytest.mark.parametrize(("voters", "found"), [(1, False), (2, True), (3, False), (4, True), (5, False)])
def test_even_number_of_voters_is_found(voters, found):
    assert judged("quorum-even", *[0] * voters) == ["cluster"] * found


def test_single_voter_is_found_where_there_are_several_brokers():
    assert judged("quorum-single", 0, brokers=3) == ["cluster"]
    assert judged("quorum-single", 0, brokers=1) == []
    assert judged("quorum-single", 0, 0, 0) == []


def test_voter_that_does_not_keep_up_is_found():
    assert judged("quorum-voter-lagging", 0, 10, VOTER_LAG_MAX_MS) == []
    assert judged("quorum-voter-lagging", 0, None, None) == [], "nobody tells"
    assert judged("quorum-voter-lagging", 0, LATE, NEVER_MS) == ["voter 2", "voter 3"]
    late, never = hits("quorum-voter-lagging", snapshot(1, [], quorum=quorum(0, LATE, NEVER_MS)))
    assert late.detail.startswith("not caught up for 10 s")
    assert never.detail.startswith("has never caught up")


@pytest.mark.parametrize(
    ("behind_ms", "found"),
    [
        ((0, 0, LATE), True),
        ((0, 0, 0), False),
        ((0, 0, 0, 0, LATE), False),
        ((0, 0, 0, LATE, LATE), True),
        ((0,), False),
    ],
)
def test_quorum_that_can_lose_nobody_else_is_found(behind_ms, found):
    assert judged("quorum-without-spare", *behind_ms) == ["cluster"] * found


def test_controllers_that_do_not_answer_are_found():
    assert places("no-controller", snapshot(3, [], has_controller=False)) == ["cluster"]
    assert not places("no-controller", snapshot(3, []))


def test_cluster_that_does_not_tell_is_not_judged():
    for rule in ("quorum-even", "quorum-single", "quorum-voter-lagging", "quorum-without-spare"):
        assert not hits(rule, snapshot(3, []))
