"""Deleted topics are followed: which come back, as what, and which go before their time."""

import uuid
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage, TrashedTopic
from esp.model.ids import LeaderEpoch, NodeId, TopicId, TopicPartition
from esp.model.partition import PartitionState
from esp.simulation.checkers.trash_checker import TrashChecker, check_restored_transactions
from esp.simulation.checkers.violation import ViolationError

TOPIC_ID = TopicId(uuid.UUID(int=7))
STATE = PartitionState(TOPIC_ID, 0, (NodeId(1), NodeId(2)), (NodeId(1),), NodeId(1), LeaderEpoch(3), 5)
TOPIC = TopicImage("t", TOPIC_ID, (STATE,), {"a": "b"})
RESTORED_STATE = replace(STATE, leader_epoch=LeaderEpoch(4), partition_epoch=6, isr=(), elr=(NodeId(1),))
RESTORED = replace(TOPIC, partitions=(RESTORED_STATE,))


def image(topic=None, *, retention_ms=None):
    """Metadata with the topic, or with it in the trash."""
    trashed = {} if retention_ms is None else {TOPIC_ID: TrashedTopic(TOPIC, 1_000, 1_000 + retention_ms)}
    return replace(EMPTY_IMAGE, topics_by_id={} if topic is None else {TOPIC_ID: topic}, trashed_topics=trashed)


def follow(*images, checker=None, step_s=1.0):
    checker = TrashChecker() if checker is None else checker
    for place, (old, new) in enumerate(pairwise(images)):
        checker.on_change(old, new, place * step_s)
    return checker


IN_TRASH = image(retention_ms=60_000)


def test_a_topic_that_comes_back_as_it_was_is_counted():
    assert follow(image(TOPIC), IN_TRASH, image(RESTORED)).restored == 1


@pytest.mark.parametrize(
    "restored",
    [
        replace(RESTORED, name="u"),
        replace(RESTORED, configs={}),
        replace(RESTORED, partitions=()),
        replace(RESTORED, partitions=(replace(RESTORED_STATE, leader_epoch=LeaderEpoch(3)),)),
        replace(RESTORED, partitions=(replace(RESTORED_STATE, elr=(NodeId(1), NodeId(2))),)),
    ],
)
def test_a_topic_that_comes_back_as_another_one_is_found(restored):
    with pytest.raises(ViolationError, match=r"^INV-TRASH at t"):
        follow(image(TOPIC), IN_TRASH, image(restored))


@pytest.mark.parametrize("is_led", [False, True])
def test_a_topic_that_is_restored_twice_without_a_leader_in_between_keeps_its_leader_epoch(is_led):
    once = replace(RESTORED_STATE, restored_epoch=RESTORED_STATE.leader_epoch - is_led)
    twice = replace(once, partition_epoch=once.partition_epoch + 1)
    first, second = replace(RESTORED, partitions=(once,)), replace(RESTORED, partitions=(twice,))
    in_trash = replace(IN_TRASH, trashed_topics={TOPIC_ID: TrashedTopic(first, 1_000, 61_000)})
    images = image(TOPIC), IN_TRASH, image(first), in_trash, image(second)
    with pytest.raises(ViolationError, match=r"^INV-TRASH at t") if is_led else nullcontext():
        assert follow(*images).restored == 2


@pytest.mark.parametrize("retention_ms", [1, 2_592_000_000])
def test_a_deleted_topic_that_should_be_in_the_trash_and_is_not_is_found(retention_ms):
    kept = replace(TOPIC, configs={"topic.trash.retention.ms": str(retention_ms)})
    with pytest.raises(ViolationError, match="was deleted, and is not in the trash"):
        follow(image(kept), image())
    follow(image(replace(TOPIC, configs={"topic.trash.retention.ms": "0"})), image())
    follow(image(kept), IN_TRASH)


def test_a_topic_that_was_purged_does_not_come_back():
    with pytest.raises(ViolationError, match="was purged, and is there again"):
        follow(image(TOPIC), IN_TRASH, image(), image(RESTORED), step_s=100.0)


def test_a_topic_whose_time_is_over_goes():
    assert follow(image(TOPIC), IN_TRASH, image(), step_s=42.0).early == 0


def test_a_topic_that_goes_early_without_a_request_is_found():
    with pytest.raises(ViolationError, match=r"^INV-TRASH at t: was purged after 40\.0 s"):
        follow(image(TOPIC), IN_TRASH, image(), step_s=40.0)


def test_a_topic_that_goes_early_on_request_is_counted():
    checker = TrashChecker()
    checker.is_asked = lambda topic_id: topic_id == TOPIC_ID
    assert follow(image(TOPIC), IN_TRASH, image(), checker=checker).early == 1


def test_a_new_controller_leaves_a_moment_of_grace_at_least():
    day = image(retention_ms=86_400_000)
    follow(image(TOPIC), day, image(), step_s=510.0)
    with pytest.raises(ViolationError, match="without a request"):
        follow(image(TOPIC), day, image(), step_s=490.0)


def batch(epoch, producer_id=-1, *, is_control=False):
    """A committed batch."""
    return SimpleNamespace(leader_epoch=epoch, producer_id=producer_id, is_control=is_control)


def check_transactions(*batches):
    check_restored_transactions(TopicPartition("t", 0), batches, restored_epoch=4, producer_ids={8, 9})


OPEN, ABORT = batch(3, 8), batch(4, 8, is_control=True)


def test_transactions_that_end_before_anything_else_are_right():
    check_transactions(OPEN, batch(3), batch(3, 9), ABORT, batch(4, 9, is_control=True), batch(4), batch(5, 8))
    check_transactions(OPEN, batch(3, 8, is_control=True), batch(4), batch(4, 9))
    check_transactions(batch(3, 7), batch(4))


@pytest.mark.parametrize("later", [(), (batch(4),), (batch(4), ABORT), (batch(5, 9), ABORT)])
def test_a_transaction_that_is_left_open_is_found(later):
    with pytest.raises(ViolationError, match="came back in epoch 4, and the transaction of"):
        check_transactions(OPEN, *later)
