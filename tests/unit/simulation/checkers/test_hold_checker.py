"""Retention takes nothing that a group which holds the records cannot have read."""

import pytest

from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.group_checker import Commit, GroupHistory
from esp.simulation.checkers.hold_checker import KNOWN_AFTER_S, HoldChecker
from esp.simulation.checkers.violation import ViolationError

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

    def take(self, names, end_offset):
        settings = TopicSettings(retention_hold_groups=tuple(names.split(",")))
        self.checker.on_taken("n1 t-0", T0, settings, end_offset)

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
