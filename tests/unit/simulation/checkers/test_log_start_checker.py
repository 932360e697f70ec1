"""Log starts are held against what was asked for and what retention may take."""

import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.log_start_checker import LogStartChecker
from esp.simulation.checkers.violation import ViolationError
from tests.unit.simulation.checkers.scenes import nodes_with, view_of
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append

KEY = (TOPIC_ID, PARTITION.partition)


class Scene:
    """A log of five batches of two records each, timestamps of 1,000 ms, and what a checker saw of it."""

    def __init__(self, **settings):
        self.node = nodes_with(0, count=1)[0]
        self.log = self.node.log
        self.log.settings = TopicSettings(**{"retention_ms": -1} | settings)
        for _ in range(5):
            append(self.log, records=2, step=0)
        self.log.high_watermark = 10
        self.view = view_of(self.node)
        self.committed = CommittedLog(PARTITION, TOPIC_ID)
        self.committed.on_high_watermark(self.view, 0, 10)
        self.gone = set()
        self.checker = LogStartChecker({KEY: self.committed}, lambda key: key not in self.gone)

    def move(self, offset, now_ms=1_000):
        self.checker.on_moved(KEY, self.view, self.log.settings, offset, now_ms)


def test_what_was_asked_for_may_be_gone_and_nothing_else():
    scene = Scene()
    scene.checker.on_asked(KEY, 3)
    scene.move(3)
    assert (scene.checker.asked(KEY), scene.checker.permitted(KEY), scene.checker.committed_end(KEY)) == (3, 3, 10)
    with pytest.raises(ViolationError, match="INV-LOG-START"):
        scene.move(4)


@pytest.mark.parametrize(("now_ms", "is_old"), [(6_000, False), (6_001, True)])
def test_retention_takes_old_batches_only(now_ms, is_old):
    scene = Scene(retention_ms=5_000)
    if is_old:
        scene.move(4, now_ms)
        assert (scene.checker.permitted(KEY), scene.checker.retained) == (4, 1)
        return
    with pytest.raises(ViolationError, match="may stay"):
        scene.move(4, now_ms)


def test_retention_leaves_its_size():
    scene = Scene()
    size = scene.view.batches[0].size
    scene.log.settings = TopicSettings(retention_ms=-1, retention_bytes=3 * size)
    scene.move(4)
    with pytest.raises(ViolationError, match="may stay"):
        scene.move(6)


def test_retention_takes_no_part_of_a_batch():
    scene = Scene(retention_ms=5_000)
    with pytest.raises(ViolationError, match="may stay"):
        scene.move(3, 9_000)


def test_nobody_is_told_of_a_log_start_beyond_what_may_be_gone():
    scene = Scene()
    scene.checker.on_asked(KEY, 4)
    scene.checker.on_told("reader", KEY, 4)
    scene.checker.on_found(KEY, scene.view, 4)
    with pytest.raises(ViolationError, match="records below 4 may be deleted"):
        scene.checker.on_told("reader", KEY, 5)
    with pytest.raises(ViolationError, match="is opened with"):
        scene.checker.on_found(KEY, scene.view, 5)
    assert scene.checker.of_successors == 0
    scene.committed.is_excused = True
    scene.checker.on_told("reader", KEY, 5)


def test_of_a_topic_that_is_gone_its_successor_may_have_answered():
    scene = Scene()
    scene.checker.on_asked(KEY, 4)
    scene.gone.add(KEY)
    scene.checker.on_told("reader", KEY, 4)
    assert scene.checker.of_successors == 0, "the topic itself may have answered so"
    scene.checker.on_told("reader", KEY, 10)
    assert scene.checker.of_successors == 1
    with pytest.raises(ViolationError, match="is opened with"):
        scene.checker.on_found(KEY, scene.view, 10)


def test_a_deletion_that_is_done_has_moved_all_log_starts():
    checker = Scene().checker
    checker.on_deleted("t-0", 4, 4, None)
    checker.on_deleted("t-0", 4, 4, 4)
    with pytest.raises(ViolationError, match="starts at 3"):
        checker.on_deleted("t-0", 4, 3, 4)
    with pytest.raises(ViolationError, match="on the device of its leader up to 3"):
        checker.on_deleted("t-0", 4, 4, 3)
