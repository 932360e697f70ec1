"""A leader is judged by the minimum of in-sync replicas that counted in the partition epoch of its ISR."""

from dataclasses import replace

from esp.controller.image import CLUSTER_DEFAULT, EMPTY_IMAGE, MIN_INSYNC_REPLICAS, TopicImage
from esp.simulation.checkers.minimums import Minimums
from tests.unit.replication.logs import state
from tests.unit.storage.helpers import TOPIC_ID


class Scene:
    """A topic of one partition with three replicas, whose metadata the checker sees change."""

    def __init__(self):
        self.minimums = Minimums()
        self.image = EMPTY_IMAGE

    def show(self, partition_epoch, *, own=None, default=None):
        configs = {} if own is None else {MIN_INSYNC_REPLICAS: str(own)}
        topic = TopicImage("t", TOPIC_ID, (state(partition_epoch=partition_epoch),), configs)
        broker_configs = {} if default is None else {CLUSTER_DEFAULT: {MIN_INSYNC_REPLICAS: str(default)}}
        image = replace(self.image, topics_by_id={TOPIC_ID: topic}, broker_configs=broker_configs)
        self.minimums.on_change(self.image, image)
        self.image = image

    def least(self, *partition_epochs):
        return [self.minimums.least(TOPIC_ID, 0, epoch) for epoch in partition_epochs]


def test_a_greater_minimum_counts_from_its_epoch_on_and_no_later():
    scene = Scene()
    scene.show(4, own=1)
    scene.show(5, own=1)
    scene.show(6, own=2)
    scene.show(7, own=2)
    assert scene.least(4, 5, 6, 7, 8) == [1, 1, 2, 2, 2]


def test_evidence_is_judged_by_the_least_minimum_since():
    scene = Scene()
    scene.show(3, own=3)
    scene.show(4, own=2)
    scene.show(5, own=3)
    assert [scene.minimums.least_since(TOPIC_ID, 0, epoch) for epoch in (3, 4, 5)] == [2, 2, 3]
    assert scene.minimums.least_since(TOPIC_ID, 1, 3) == 1


def test_a_lesser_minimum_counts_in_the_epoch_that_it_came_into():
    scene = Scene()
    scene.show(3, own=3)
    scene.show(3, own=2)
    scene.show(4, own=2)
    assert scene.least(3, 4) == [2, 2]


def test_a_lesser_minimum_that_comes_with_an_epoch_counts_from_that_on():
    scene = Scene()
    scene.show(3, own=3)
    scene.show(5, own=2)
    assert scene.least(3, 4, 5) == [3, 3, 2], "nobody can have gone by what was between the changes of one batch"


def test_a_minimum_that_falls_and_rises_again_counts_in_the_epochs_between():
    scene = Scene()
    scene.show(3, own=2)
    scene.show(4, own=1)
    scene.show(5, own=2)
    assert scene.least(3, 4, 5) == [2, 1, 2]


def test_the_minimum_of_all_brokers_counts_where_the_topic_has_none_and_never_more_than_there_are_replicas():
    scene = Scene()
    scene.show(3, default=1)
    scene.show(4, default=2)
    scene.show(5, default=7)
    assert scene.least(3, 4, 5) == [1, 2, 3]
    scene.show(6, own=1, default=7)
    assert scene.least(5, 6) == [3, 1]
