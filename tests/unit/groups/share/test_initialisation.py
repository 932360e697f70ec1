"""Share groups and share coordinators: states are made before partitions are assigned, once, and deleted with their topics."""

import pytest

from esp.groups.share.effects import InitialiseShareStates
from esp.model.errors import ErrorCode
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_record_codec import decode_share_group_record
from tests.unit.groups.share.share_world import INTERVAL_MS, ShareWorld
from tests.unit.groups.world import Topics

RETRY_MS = 30_000


@pytest.fixture
def world():
    return ShareWorld(topics=Topics(t=2), is_deaf=True)


def of(world, number, topic="t"):
    return TopicIdPartition(world.topics.find(topic).topic.topic_id, number)


def question(world):
    [asked] = world.questions.values()
    assert isinstance(asked, InitialiseShareStates)
    return asked.state_epoch, {start.partition.partition: start.offset for start in asked.starts}


def last_partitions(world):
    """The numbers of the partitions of ``t`` that are initialising, and that are initialised, by the last record of them."""
    records = [decode_share_group_record(record.key, record.value) for record in world.log]
    value = next(record.value for record in reversed(records) if record.key.type == 15)
    topic_id = world.topics.find("t").topic.topic_id
    return tuple(
        sorted(known[topic_id].partitions) if topic_id in known else []
        for known in (value.initialising, value.initialised)
    )


def test_it_is_asked_once_the_record_is_committed(world):
    world.is_stuck = True
    world.share("a")
    assert not world.questions
    world.commit()
    assert question(world) == (2, {0: -1, 1: -1})
    assert last_partitions(world) == ([0, 1], [])


def test_what_is_not_initialised_is_not_assigned(world):
    world.share("a")
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2) == (2, None)
    world.answer()
    assert last_partitions(world) == ([], [0, 1])
    assert world.beat("a", 2) == (3, [0, 1])


def test_a_record_that_is_undone_asks_nobody(world):
    world.is_stuck = True
    world.share("a")
    world.fail()
    assert not world.questions
    world.is_stuck = False
    world.share("a")
    assert question(world) == (2, {0: -1, 1: -1})


def test_a_coordinator_that_does_not_answer_is_asked_again_in_a_higher_epoch(world):
    world.share("a")
    lost = world.questions.popitem()
    world.sleep(RETRY_MS - 1)
    assert world.beat("a", 2) == (2, None)
    assert not world.questions
    world.sleep(1)
    assert world.beat("a", 2)[0] == 3
    assert question(world) == (3, {0: -1, 1: -1})
    world.answer()
    token, late = lost
    assert {result.error for result in world.states.do(late).values()} == {ErrorCode.fenced_state_epoch}
    world.do(world.coordinator.shares.on_states_answered(token, {}, world.now))
    assert last_partitions(world) == ([], [0, 1])


def test_the_answer_to_an_older_question_does_not_count(world):
    world.share("a")
    token, late = world.questions.popitem()
    results = world.states.do(late)
    world.sleep(RETRY_MS)
    world.beat("a", 2)
    world.do(world.coordinator.shares.on_states_answered(token, results, world.now))
    assert last_partitions(world) == ([0, 1], []), "the newer question makes the state again"
    world.answer()
    assert last_partitions(world) == ([], [0, 1])


def test_a_coordinator_that_refuses_is_asked_again_soon(world):
    world.share("a")
    world.answer(ErrorCode.coordinator_not_available)
    assert world.beat("a", 2) == (2, None)
    assert not world.questions
    world.sleep(1_000)
    assert world.beat("a", 2)[0] == 3
    assert question(world) == (3, {0: -1, 1: -1})


def test_those_that_succeed_are_assigned_while_others_are_tried_again(world):
    world.share("a")
    [(token, asked)] = world.questions.items()
    world.questions.clear()
    results = world.states.do(asked)
    del results[of(world, 1)]
    world.do(world.coordinator.shares.on_states_answered(token, results, world.now))
    assert last_partitions(world) == ([1], [0])
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2) == (3, [0])
    assert question(world) == (3, {1: -1})


def test_another_coordinator_asks_again(world):
    world.share("a")
    after = world.restart(is_deaf=True)
    after.beat("a", 2)
    assert question(after) == (3, {0: -1, 1: -1})


def test_partitions_that_are_added_begin_at_zero_over_retries_and_coordinators(world):
    world.share("a")
    world.answer()
    world.topics.create("t", 3)
    world.sleep(INTERVAL_MS)
    world.beat("a", 2)
    assert question(world) == (3, {2: 0})
    after = world.restart(is_deaf=True)
    after.sleep(INTERVAL_MS)
    after.beat("a", 3)
    assert question(after) == (4, {2: 0})
    after.answer()
    after.sleep(INTERVAL_MS)
    assert after.beat("a", 3) == (4, [0, 1, 2])


def test_partitions_that_are_added_while_the_first_ones_wait_begin_at_zero_too(world):
    world.share("a")
    world.lose()
    world.topics.create("t", 3)
    world.sleep(1_000)
    world.beat("a", 2)
    assert question(world) == (3, {0: -1, 1: -1, 2: 0})


def test_a_topic_that_is_created_again_begins_as_a_new_one(world):
    world.is_deaf = False
    world.assigned()
    world.delete_topic("t")
    world.topics.create("t", 1)
    world.is_deaf = True
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 3) == (4, [])
    assert question(world) == (4, {0: -1})


def test_a_deleted_topic_leaves_the_group_and_its_states_are_deleted(world):
    world.is_deaf = False
    world.assigned()
    assert len(world.states.states) == 2
    place = len(world.log)
    world.delete_topic("t")
    assert not world.states.states
    assert world.types_since(place) == [15]
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 3) == (4, [])


def test_a_topic_of_which_the_group_has_nothing_is_deleted_without_a_word(world):
    world.is_deaf = False
    world.topics.create("other", 1)
    world.assigned()
    place = len(world.log)
    world.delete_topic("other")
    assert len(world.log) == place


def test_answers_for_topics_that_were_deleted_meanwhile_do_not_count(world):
    world.share("a")
    [(token, asked)] = world.questions.items()
    world.questions.clear()
    world.delete_topic("t")
    place = len(world.log)
    world.do(world.coordinator.shares.on_states_answered(token, world.states.do(asked), world.now))
    assert len(world.log) == place


def test_answers_that_the_log_does_not_take_are_asked_for_again(world):
    world.share("a")
    world.is_stuck = True
    world.answer()
    world.fail()
    world.is_stuck = False
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2)[0] == 3
    assert question(world) == (3, {0: -1, 1: -1})
