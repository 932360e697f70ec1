"""Images are compared part by part, and nothing that differs passes for equal."""

import copy
import dataclasses
from uuid import UUID

import pytest

from esp.controller.image import ClusterImage, TopicImage
from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers.same_images import WHOLE_EVERY, SameImages


def topic(name, leader=1):
    topic_id = TopicId(UUID(int=sum(name.encode())))
    partition = PartitionState(topic_id, 0, (NodeId(1),), (NodeId(1),), NodeId(leader), LeaderEpoch(0), 0)
    return TopicImage(name, topic_id, (partition,), {"a": "1"})


def image(*topics, **more):
    by_name, by_id = {one.name: one for one in topics}, {one.topic_id: one for one in topics}
    return ClusterImage(topics_by_name=by_name, topics_by_id=by_id, **more)


@pytest.fixture
def same():
    return SameImages()


def test_equal_images_of_two_nodes_are_the_same_again_and_again(same):
    known, other = image(topic("a"), topic("b")), image(topic("a"), topic("b"))
    assert [same.are_same(known, other) for _ in range(2 * WHOLE_EVERY)] == [True] * (2 * WHOLE_EVERY)


@pytest.mark.parametrize(
    "other",
    [
        image(topic("a"), topic("b", leader=2)),
        image(topic("a")),
        image(topic("a"), topic("b"), topic("c")),
        image(topic("a"), topic("c")),
        image(topic("a"), topic("b"), features={"x": 1}),
        image(topic("a"), topic("b"), offset=1),
    ],
)
def test_a_part_that_differs_is_found_after_images_that_were_the_same(same, other):
    known = image(topic("a"), topic("b"))
    assert same.are_same(known, image(topic("a"), topic("b")))
    assert not same.are_same(known, other)
    assert not same.are_same(other, known)


def test_a_part_that_a_newer_image_shares_is_held_against_what_is_committed_now(same):
    kept = topic("a")
    assert same.are_same(image(topic("a")), image(kept))
    assert not same.are_same(image(topic("a", leader=2)), image(kept))


def test_an_image_that_was_changed_in_place_is_found_out_in_time(same):
    known, other = image(topic("a")), image(copy.deepcopy(topic("a")))
    assert same.are_same(known, other)
    other.topics_by_name["a"].configs["a"] = "2"
    assert not all(same.are_same(dataclasses.replace(known), dataclasses.replace(other)) for _ in range(WHOLE_EVERY))
