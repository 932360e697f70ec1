"""Partitions of a name are held against those before: where they begin, in which epoch, and what is committed in them."""

import uuid
from dataclasses import replace
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage, TrashedTopic
from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.model.offset_floor import OFFSET_SPAN
from esp.model.partition import PartitionState
from esp.simulation.checkers.floor_checker import FloorChecker
from esp.simulation.checkers.violation import ViolationError

CONTINUE = {"topic.recreate.offsets": "continue"}
RESET = {"topic.recreate.offsets": "reset"}


class Scene:
    """Topics of one name that follow one another, each of one partition."""

    def __init__(self):
        self.committed = {}
        self.checker = FloorChecker(self.committed.get)
        self.image = EMPTY_IMAGE
        self.count = 0

    def create(self, start=0, epoch=0, configs=CONTINUE):
        self.count += 1
        topic_id = TopicId(uuid.UUID(int=self.count))
        self._change(TopicImage("t", topic_id, (self._state(topic_id, 0, start, epoch),), configs))
        self.committed[topic_id, 0] = SimpleNamespace(end_offset=start, is_excused=False, last=None, batches={})
        return self.committed[topic_id, 0]

    def grow(self, start, epoch):
        (topic,) = self.image.topics_by_id.values()
        added = self._state(topic.topic_id, len(topic.partitions), start, epoch)
        self._change(replace(topic, partitions=(*topic.partitions, added)))

    def elect(self, epoch):
        (topic,) = self.image.topics_by_id.values()
        (state,) = topic.partitions
        self._change(replace(topic, partitions=(replace(state, leader_epoch=LeaderEpoch(epoch)),)))

    def delete(self):
        self._change(None)

    def trash(self):
        (topic,) = self.image.topics_by_id.values()
        trashed = {**self.image.trashed_topics, topic.topic_id: TrashedTopic(topic, 0, 1)}
        self._change(None, trashed)
        return topic

    def restore(self, topic):
        (state,) = topic.partitions
        state = replace(state, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
        self._change(replace(topic, partitions=(state,)))

    def _state(self, topic_id, number, start, epoch):
        return PartitionState(
            topic_id, number, (NodeId(1),), (NodeId(1),), NodeId(1), LeaderEpoch(epoch), 0, start_offset=start
        )

    def _change(self, topic, trashed=None):
        topics = {} if topic is None else {topic.topic_id: topic}
        trashed = self.image.trashed_topics if trashed is None else trashed
        old, self.image = self.image, replace(self.image, topics_by_id=topics, trashed_topics=trashed)
        self.checker.on_change(old, self.image)


def test_a_topic_that_goes_on_at_or_above_the_end_is_right():
    scene = Scene()
    scene.create().end_offset = 5
    scene.delete()
    scene.create(5, 1).end_offset = 7
    scene.delete()
    scene.create(OFFSET_SPAN, 2)
    scene.checker.check()
    assert (scene.checker.continued, scene.checker.leapt) == (1, 1)


def test_one_that_begins_below_the_end_is_found():
    scene = Scene()
    scene.create().end_offset = 5
    scene.delete()
    with pytest.raises(ViolationError, match="INV-OFFSET-FLOOR"):
        scene.create(4, 1)


def test_what_is_committed_late_is_found():
    scene = Scene()
    first = scene.create()
    first.end_offset = 5
    scene.delete()
    scene.create(5, 1)
    first.end_offset = 6
    with pytest.raises(ViolationError, match="INV-OFFSET-FLOOR"):
        scene.checker.check()
    first.is_excused = True
    scene.checker.check()


def test_the_same_leader_epoch_is_found():
    scene = Scene()
    scene.create()
    scene.elect(3)
    scene.delete()
    with pytest.raises(ViolationError, match="in epoch 3"):
        scene.create(0, 3)


def test_a_record_below_the_start_is_found():
    scene = Scene()
    scene.create()
    scene.delete()
    committed = scene.create(5, 1)
    committed.batches[4] = SimpleNamespace(base_offset=4)
    with pytest.raises(ViolationError, match="begins at 5"):
        scene.checker.check()


def test_a_partition_that_is_added_is_held_against_those_of_its_number():
    scene = Scene()
    scene.create()
    scene.grow(0, 0)
    scene.delete()
    scene.create(0, 1)
    with pytest.raises(ViolationError, match="t-1"):
        scene.grow(0, 0)


@pytest.mark.parametrize(("first", "second"), [(RESET, CONTINUE), (CONTINUE, RESET), (RESET, RESET)])
def test_nothing_is_asked_of_a_name_that_begins_again_from_0(first, second):
    scene = Scene()
    scene.create(configs=first).end_offset = 5
    scene.delete()
    scene.create(0, 0, second)
    scene.checker.check()


def test_a_restored_topic_goes_on_as_it_is_and_the_next_one_behind_it():
    scene = Scene()
    committed = scene.create()
    committed.end_offset = 5
    scene.restore(scene.trash())
    committed.end_offset = 6
    scene.delete()
    scene.create(6, 2)
    assert scene.checker.continued == 1


def test_a_topic_that_comes_back_behind_one_that_went_on_is_found():
    scene = Scene()
    scene.create().end_offset = 5
    first = scene.trash()
    scene.create(5, 1)
    scene.delete()
    with pytest.raises(ViolationError, match="has gone on from its offsets"):
        scene.restore(first)


def test_a_topic_comes_back_behind_one_that_began_from_0():
    scene = Scene()
    scene.create().end_offset = 5
    first = scene.trash()
    scene.create(0, 0, RESET)
    scene.delete()
    scene.restore(first)
    scene.checker.check()
