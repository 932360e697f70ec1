"""Partitions that join a transaction, and the answers to their leaders (TXN-4)."""

import uuid

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.adding import CELLS
from esp.transactions.requests import AddPartitions, Producer
from tests.unit.transactions.world import P0, P1, START_MS, World, value

S = TransactionStatus
NONE, BUSY = ErrorCode.none, ErrorCode.concurrent_transactions
FENCED, UNKNOWN = ErrorCode.producer_fenced, ErrorCode.invalid_producer_id_mapping
NOT_THERE = ErrorCode.transaction_abortable
PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
STATES = [S(number) for number in range(6)]


def at(status, **options):
    partitions = (P0,) if status is S.ONGOING or status in PREPARED else ()
    return World(value(status, partitions=partitions), writes_markers=False, **options)


def test_every_stored_state_has_a_cell():
    assert list(CELLS) == STATES


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("status", AT_REST)
def test_first_partition_begins_the_transaction(status, version):
    world = at(status)
    world.pass_time(9)
    assert world.add((7, 3), P1, version=version) is NONE
    now_ms = START_MS + 9
    assert world.stored() == value(
        S.ONGOING, partitions=(P1,), last_update_ms=now_ms, start_ms=now_ms, client_version=version
    )


def test_more_partitions_join_and_the_start_stays():
    world = at(S.ONGOING)
    world.pass_time(9)
    assert world.add((7, 3), P1) is NONE
    assert world.stored() == value(S.ONGOING, partitions=(P0, P1), last_update_ms=START_MS + 9)


@pytest.mark.parametrize("partitions", [(), (P0,)])
def test_partitions_that_are_there_are_not_written_again(partitions):
    world = at(S.ONGOING)
    before = list(world.log)
    assert world.add((7, 3), *partitions) is NONE
    assert world.log == before


@pytest.mark.parametrize("status", AT_REST)
def test_empty_list_begins_a_transaction_without_partitions(status):
    world = at(status)
    assert world.add((7, 3)) is NONE
    assert world.status is S.ONGOING


@pytest.mark.parametrize("status", PREPARED)
def test_decision_that_is_not_completed_lets_partitions_wait(status):
    world = at(status)
    before = list(world.log)
    assert world.add((7, 3), P1) is BUSY
    assert world.log == before


@pytest.mark.parametrize("status", STATES)
@pytest.mark.parametrize(("producer", "error"), [((7, 2), FENCED), ((7, 4), FENCED), ((6, 3), UNKNOWN)])
def test_other_producers_are_refused_and_nothing_changes(status, producer, error):
    world = at(status)
    before = list(world.log)
    assert world.add(producer, P1) is (BUSY if status in PREPARED else error)
    assert world.verify(producer, P0) == {P0: error}
    assert world.log == before


def test_producer_id_that_a_rotation_gave_waits_for_its_completion():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), writes_markers=False)
    following = world.end((7, 32_766)).producer
    assert world.add(following, P0, version=2) is BUSY
    world.write_markers(world.markers.pop())
    assert world.add(following, P0, version=2) is NONE


def test_unknown_id_is_refused():
    world = World()
    assert world.add((7, 3), P0) is UNKNOWN
    assert world.verify((7, 3), P0) == {P0: UNKNOWN}


@pytest.mark.parametrize("producer", [(7, 3), (7, 2), (7, 4), (6, 3)])
def test_move_on_its_way_is_looked_at_before_the_producer(producer):
    world = at(S.ONGOING, is_stuck=True)
    world.add((7, 3), P1)
    assert world.add(producer, P1) is BUSY


def test_partition_has_joined_when_that_is_committed_and_not_before():
    world = at(S.ONGOING, is_stuck=True)
    ticket = world.add((7, 3), P1)
    assert ticket not in world.answers
    assert world.verify((7, 3), P0, P1) == {P0: NONE, P1: NOT_THERE}
    world.commit()
    assert world.answers[ticket].errors == {P1: NONE}
    assert world.verify((7, 3), P0, P1) == {P0: NONE, P1: NONE}


def test_join_whose_append_fails_has_not_happened():
    world = at(S.EMPTY, is_stuck=True)
    ticket = world.add((7, 3), P0)
    world.fail()
    assert world.answers[ticket].errors == {P0: ErrorCode.coordinator_not_available}
    assert world.verify((7, 3), P0) == {P0: NOT_THERE}
    assert world.describe().state == "Empty"


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        (S.EMPTY, {P0: NOT_THERE, P1: NOT_THERE}),
        (S.ONGOING, {P0: NONE, P1: NOT_THERE}),
        (S.PREPARE_COMMIT, {P0: BUSY, P1: BUSY}),
        (S.PREPARE_ABORT, {P0: BUSY, P1: BUSY}),
        (S.COMPLETE_COMMIT, {P0: NOT_THERE, P1: NOT_THERE}),
        (S.COMPLETE_ABORT, {P0: NOT_THERE, P1: NOT_THERE}),
    ],
)
def test_verification_cell(status, errors):
    assert at(status).verify((7, 3), P0, P1) == errors


def test_move_on_its_way_does_not_hold_up_verification():
    world = at(S.ONGOING, is_stuck=True)
    world.end((7, 3))
    assert world.verify((7, 3), P0) == {P0: NONE}


def test_topic_that_was_made_anew_joins_by_its_new_id():
    world = at(S.EMPTY)
    old, new = uuid.UUID(int=11), uuid.UUID(int=12)
    for topic_id in (old, old, new):
        request = AddPartitions(transactional_id="app", producer=Producer(7, 3), partitions={P0: topic_id})
        assert world.ask(world.coordinator.add_partitions, request).error is NONE
    assert len(world.log) == 3, "the repetition of the first needs no record"
    world.end((7, 3))
    assert world.markers[0].partitions == {P0: new}
