"""Retention takes nothing that a group which holds the records cannot have read."""

import logging

import pytest

from esp.model.ids import TopicPartition
from esp.model.retention_hold import DELETE_RECORDS, DELETE_TOPICS
from esp.replication.log_holds import UNHEARD
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.group_checker import Commit, GroupHistory
from esp.simulation.checkers.hold_checker import KNOWN_AFTER_S, TELLING_S, TELLS, TELLS_UNKNOWN, HoldChecker
from esp.simulation.checkers.log_start_checker import Taken
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import tallied

T0 = TopicPartition("t", 0)


class Scene:
    def __init__(self):
        self.groups = {}
        self.lost = set()
        self.now_s = 100.0
        self.checker = HoldChecker(self.groups, self.lost.__contains__, lambda: self.now_s)

    def commit(self, group, offset, *, is_acked=True):
        commit = Commit(offset, "", None, self.now_s, self.now_s, is_acked=is_acked)
        self.groups.setdefault(group, GroupHistory()).commits.setdefault(T0, []).append(commit)

    def take(self, names, end_offset, *, uncapped_end=None):
        settings = TopicSettings(retention_hold_groups=tuple(names.split(",")))
        taken = Taken(0, end_offset, end_offset if uncapped_end is None else uncapped_end)
        self.checker.on_taken("n1 t-0", T0, settings, taken)

    def say(self, group, first, last, breaker="a cap"):
        logging.getLogger(TELLS).warning(
            "%s: the hold of group %s is broken by %s: offsets %d to %d are deleted", T0, group, breaker, first, last
        )

    def say_unknown(self, groups):
        logging.getLogger(TELLS_UNKNOWN).warning(
            "%s: groups %s hold its records, which are deleted by %s; it is not known what they lose",
            T0,
            groups,
            DELETE_RECORDS,
        )

    def wait(self):
        self.now_s += TELLING_S
        self.checker.look()

    def refuses(self, names, end_offset):
        with pytest.raises(ViolationError, match="INV-HOLD"):
            self.take(names, end_offset)


def test_what_a_group_sent_at_most_may_go():
    scene = Scene()
    scene.commit("a", 5)
    scene.commit("a", 9, is_acked=False)
    scene.commit("a", 3)
    scene.take("a", 9)
    scene.refuses("a", 10)


def test_a_group_by_name_holds_before_it_commits():
    scene = Scene()
    scene.refuses("a", 1)
    scene.commit("b", 5)
    scene.refuses("a,b", 1)


def test_a_group_by_pattern_holds_when_its_commit_must_be_known():
    scene = Scene()
    scene.take("*", 100)
    scene.commit("a", 5, is_acked=False)
    scene.now_s += KNOWN_AFTER_S
    scene.take("*", 100)
    scene.commit("a", 5)
    scene.take("*", 100)
    scene.now_s += KNOWN_AFTER_S
    scene.refuses("*", 6)
    scene.refuses("a*", 6)
    scene.take("b*", 6)
    scene.take("*", 5)


def test_a_group_whose_commits_were_lost_is_left_alone():
    scene = Scene()
    scene.lost.add("a")
    scene.take("a", 100)


def test_a_group_that_is_deleted_holds_nothing():
    scene = Scene()
    scene.commit("a", 5)
    scene.checker.on_deleting("a")
    with tallied() as excuses:
        scene.take("a", 5)
        scene.take("a", 9)
    assert excuses == {"deleted_groups": 1}
    scene.refuses("a,b", 9)


@pytest.mark.parametrize(
    ("said", "is_enough"),
    [
        ((("a", 5, 8),), True),
        ((("a", 5, 6), ("a", 7, 8)), True),
        (((UNHEARD, 0, 8),), True),
        ((), False),
        ((("a", 5, 7),), False),
        ((("b", 5, 8),), False),
        ((("a", 6, 8),), False),
    ],
)
def test_what_a_cap_lets_go_is_said(said, is_enough):
    scene = Scene()
    scene.commit("a", 5)
    with scene.checker.watched():
        scene.take("a", 9, uncapped_end=0)
        for line in said:
            scene.say(*line)
    if is_enough:
        scene.wait()
        assert scene.checker.breaks == 1
        return
    with pytest.raises(ViolationError, match=r"INV-HOLD.*offsets 5 to 8, which a has not read, and does not say so"):
        scene.wait()


def test_there_is_time_to_say_it():
    scene = Scene()
    with scene.checker.watched():
        scene.take("a", 9, uncapped_end=0)
        scene.checker.look()
        scene.say("a", 0, 8)
    scene.wait()
    assert scene.checker.breaks == 1


def test_nothing_is_said_of_what_was_read():
    scene = Scene()
    scene.commit("a", 9)
    scene.take("a", 9, uncapped_end=0)
    scene.wait()
    assert scene.checker.breaks == 0


@pytest.mark.parametrize(
    ("said", "is_enough"),
    [
        ((("a", 5, 8),), True),
        ((("a", 0, 8), ("b", 0, 8)), True),
        (((UNHEARD, 0, 8),), True),
        ((), False),
        ((("a", 6, 8),), False),
        ((("a", 5, 7),), False),
        ((("b", 5, 8),), False),
        ((("a", 5, 8, "a cap"),), False),
        ((("a", 5, 8, DELETE_TOPICS),), False),
    ],
)
def test_what_a_client_deletes_is_said_before_it_is_answered(said, is_enough):
    scene = Scene()
    scene.commit("a", 5)
    with scene.checker.watched():
        for line in said:
            scene.say(*line[:3], *line[3:] or (DELETE_RECORDS,))
    if is_enough:
        scene.checker.on_records_deleted(T0, ("a",), 0, 9)
        assert scene.checker.deletions == 1
        return
    with pytest.raises(ViolationError, match=r"INV-HOLD.*offset 5 to 8, which a has not read, and no node says so"):
        scene.checker.on_records_deleted(T0, ("a",), 0, 9)


def test_what_was_read_or_gone_before_is_not_lost_to_a_client():
    scene = Scene()
    scene.commit("a", 5)
    scene.checker.on_records_deleted(T0, ("a",), 0, 5)
    scene.checker.on_records_deleted(T0, ("a",), 9, 9)
    scene.lost.add("a")
    scene.checker.on_records_deleted(T0, ("a",), 0, 9)
    assert scene.checker.deletions == 0
    with pytest.raises(ViolationError, match="offset 3 to 8, which b has not read"):
        scene.checker.on_records_deleted(T0, ("a", "b"), 3, 9)


def test_groups_whose_loss_is_not_known_are_named_all_the_same():
    scene = Scene()
    with scene.checker.watched():
        scene.say_unknown("a, c")
    scene.checker.on_records_deleted(T0, ("a", "c"), 0, 9)
    assert scene.checker.deletions == 2
    with pytest.raises(ViolationError, match="which b has not read"):
        scene.checker.on_records_deleted(T0, ("b",), 0, 9)
    with scene.checker.watched():
        scene.say_unknown(UNHEARD)
    scene.checker.on_records_deleted(T0, ("b",), 0, 9)


@pytest.mark.parametrize(
    ("said", "is_enough"),
    [
        (("a", 5, 8, DELETE_TOPICS), True),
        ((UNHEARD, 0, 8, DELETE_TOPICS), True),
        (("a", 5, 8, DELETE_RECORDS), False),
        (("a", 5, 7, DELETE_TOPICS), False),
        (("b", 5, 8, DELETE_TOPICS), False),
    ],
)
def test_what_the_deletion_of_a_topic_takes_is_said_before_it_is_answered(said, is_enough):
    scene = Scene()
    scene.commit("a", 5)
    with scene.checker.watched():
        scene.say(*said)
    if is_enough:
        scene.checker.on_topic_deleted(T0, ("a",), 0, 9, scene.now_s)
        assert (scene.checker.topic_deletions, scene.checker.deletions) == (1, 0)
        return
    with pytest.raises(ViolationError, match=r"INV-HOLD.*offset 5 to 8, which a has not read, and no node says so"):
        scene.checker.on_topic_deleted(T0, ("a",), 0, 9, scene.now_s)


def test_lines_about_a_former_topic_of_the_name_do_not_count():
    scene = Scene()
    with scene.checker.watched():
        scene.say("a", 0, 8, DELETE_TOPICS)
    scene.now_s += 1
    with pytest.raises(ViolationError, match="offset 0 to 8, which a has not read"):
        scene.checker.on_topic_deleted(T0, ("a",), 0, 9, scene.now_s)


def test_no_pattern_holds_a_topic_by_the_commits_of_its_predecessors():
    scene = Scene()
    scene.commit("a", 5)
    scene.now_s += KNOWN_AFTER_S
    scene.checker.on_topic_deleted(T0, ("*",), 0, 9, scene.now_s)
    assert scene.checker.topic_deletions == 0
