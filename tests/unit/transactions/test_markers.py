"""Decisions are carried out to the end, whatever becomes of appends, answers and coordinators (TXN-6, TXN-7, TXN-12)."""

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.markers import MarkerOutcome, outcome_of
from tests.unit.transactions.world import P0, P1, World, value

S = TransactionStatus
REFUSALS = (ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced)
PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)


def open_world(**options):
    return World(value(S.ONGOING, partitions=(P0, P1)), writes_markers=False, **options)


@pytest.mark.parametrize("error", list(ErrorCode))
def test_every_answer_has_an_outcome_and_none_drops_the_decision(error):
    expected = MarkerOutcome.AGAIN
    if error is ErrorCode.none:
        expected = MarkerOutcome.WRITTEN
    elif error in REFUSALS:
        expected = MarkerOutcome.REFUSED
    assert outcome_of(error) is expected


def test_transaction_is_complete_when_the_last_partition_has_its_marker():
    world = open_world()
    world.end((7, 3))
    (effect,) = world.markers
    world.do(world.coordinator.on_marker_written("app", effect.decision, P1, world.now))
    assert world.status is S.PREPARE_COMMIT
    world.do(world.coordinator.on_marker_written("app", effect.decision, P1, world.now))
    assert world.status is S.PREPARE_COMMIT
    world.do(world.coordinator.on_marker_written("app", effect.decision, P0, world.now))
    assert world.status is S.COMPLETE_COMMIT


def test_result_of_an_earlier_decision_does_not_end_a_later_one():
    world = open_world()
    world.end((7, 3))
    first = world.markers.pop()
    world.write_markers(first)
    world.add((7, 4), P0, P1, version=2)
    world.end((7, 4))
    assert world.status is S.PREPARE_COMMIT
    world.write_markers(first)
    assert world.status is S.PREPARE_COMMIT
    world.write_markers(world.markers.pop())
    assert world.status is S.COMPLETE_COMMIT


def test_results_that_come_after_the_completion_do_nothing():
    world = open_world()
    world.end((7, 3))
    effect = world.markers.pop()
    world.write_markers(effect)
    before = list(world.log)
    world.write_markers(effect)
    world.refuse_markers(effect)
    assert world.log == before
    assert world.alarms == []


@pytest.mark.parametrize("status", PREPARED)
def test_coordinator_of_the_next_epoch_goes_on_with_the_decision(status):
    world = World(value(status, (7, 4), (P0, P1), client_version=2), writes_markers=False)
    (effect,) = world.markers
    assert (effect.producer, effect.transaction_version) == ((7, 4), 2)
    assert effect.is_commit is (status is S.PREPARE_COMMIT)
    assert effect.partitions == {P0: None, P1: None}
    world.write_markers(effect)
    assert world.status is (S.COMPLETE_COMMIT if status is S.PREPARE_COMMIT else S.COMPLETE_ABORT)


@pytest.mark.parametrize("status", PREPARED)
def test_decision_without_partitions_that_was_found_is_completed(status):
    world = World(value(status, partitions=()))
    assert world.status is (S.COMPLETE_COMMIT if status is S.PREPARE_COMMIT else S.COMPLETE_ABORT)


def test_append_of_the_completion_that_fails_is_repeated():
    world = open_world()
    world.end((7, 3))
    world.is_stuck = True
    world.write_markers(world.markers.pop())
    world.fail()
    assert world.status is S.PREPARE_COMMIT
    assert world.end((7, 4)).error is ErrorCode.concurrent_transactions
    world.pass_time(100)
    world.fail()
    world.is_stuck = False
    world.pass_time(100)
    assert world.status is S.COMPLETE_COMMIT
    assert world.coordinator.next_deadline_us > world.now_us + 1_000_000, "nothing is repeated any more"


@pytest.mark.parametrize("error", REFUSALS)
def test_refused_marker_is_an_alarm_and_is_sent_again(error):
    world = open_world()
    world.end((7, 3))
    effect = world.markers.pop()
    world.do(world.coordinator.on_marker_written("app", effect.decision, P0, world.now))
    for _ in range(2):
        world.do(world.coordinator.on_marker_refused("app", effect.decision, P1, error, world.now))
        assert world.coordinator.refused_markers == 1
        assert world.markers == []
        world.pass_time(10_000)
        effect = world.markers.pop()
        assert set(effect.partitions) == {P1}
    assert [(alarm.partition, alarm.error) for alarm in world.alarms] == [(P1, error)], "one alarm is enough"
    world.write_markers(effect)
    assert world.status is S.COMPLETE_COMMIT
    assert world.coordinator.refused_markers == 0


def test_markers_are_pending_until_each_is_written():
    world = open_world()
    assert world.coordinator.pending_markers == 0
    world.end((7, 3))
    effect = world.markers.pop()
    assert world.coordinator.pending_markers == 2
    refused = ErrorCode.invalid_producer_epoch
    world.do(world.coordinator.on_marker_refused("app", effect.decision, P1, refused, world.now))
    assert world.coordinator.pending_markers == 2, "a refused marker is not written"
    world.do(world.coordinator.on_marker_written("app", effect.decision, P0, world.now))
    assert world.coordinator.pending_markers == 1
    world.write_markers(effect)
    assert world.coordinator.pending_markers == 0


def test_refused_marker_does_not_outlive_a_deleted_partition():
    world = open_world()
    world.end((7, 3))
    effect = world.markers.pop()
    world.refuse_markers(effect)
    world.write_markers(effect)
    assert world.status is S.COMPLETE_COMMIT
    world.pass_time(60_000)
    assert world.markers == []


def test_coordinator_of_the_next_epoch_sends_refused_markers_at_once():
    world = open_world()
    world.end((7, 3))
    world.refuse_markers(world.markers.pop())
    after = world.reloaded(writes_markers=False)
    assert set(after.markers[0].partitions) == {P0, P1}
