"""Time-outs and expiration, on clocks that step (TXN-9)."""

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.requests import Producer
from tests.unit.transactions.world import (
    DAY_MS,
    DAYS_TO_EXPIRE,
    FIRST_NEW_PRODUCER_ID,
    P0,
    START_MS,
    TIMEOUT_MS,
    World,
    record_of,
    value,
)

S = TransactionStatus
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
EXPIRED_MS = DAYS_TO_EXPIRE * DAY_MS
HOUR_MS = 3_600_000


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 2)])
def test_late_transaction_is_aborted_with_one_epoch_more(level, version):
    world = World(value(S.ONGOING, partitions=(P0,)), writes_markers=False, level=level)
    world.pass_time(TIMEOUT_MS)
    assert world.status is S.ONGOING
    world.pass_time(10_000)
    (effect,) = world.markers
    assert (effect.producer, effect.is_commit, effect.transaction_version) == (Producer(7, 4), False, version)
    world.write_markers(effect)
    assert world.status is S.COMPLETE_ABORT
    assert world.end((7, 3)).error is ErrorCode.invalid_txn_state
    assert world.end((7, 3), commit=False).error is ErrorCode.none
    assert world.end((7, 3), bumps=False).error is ErrorCode.producer_fenced
    assert world.add((7, 3), P0) is ErrorCode.producer_fenced


@pytest.mark.parametrize("level", [1, 2])
def test_producer_that_was_late_gets_the_raised_epoch_without_another_bump(level):
    world = World(value(S.ONGOING, partitions=(P0,)), level=level)
    world.pass_time(TIMEOUT_MS + 10_000)
    assert world.init(Producer(7, 3)).producer == (7, 4)


@pytest.mark.parametrize("level", [1, 2])
def test_producer_that_was_late_gets_no_epoch_once_a_newer_one_has_the_id(level):
    world = World(value(S.ONGOING, partitions=(P0,)), level=level)
    world.pass_time(TIMEOUT_MS + 10_000)
    assert world.init().producer == (7, 5)
    before = world.stored()
    assert world.init(Producer(7, 3)).error is ErrorCode.producer_fenced
    assert world.stored() == before


def test_transaction_that_gains_partitions_has_the_time_from_its_start():
    world = World(value(S.ONGOING, partitions=()))
    world.pass_time(TIMEOUT_MS - 1_000)
    world.add((7, 3), P0)
    world.pass_time(12_000)
    assert world.status is S.COMPLETE_ABORT


@pytest.mark.parametrize("step_ms", [-10 * DAY_MS, 10 * DAY_MS])
def test_steps_of_the_wall_clock_change_no_timeout(step_ms):
    world = World(value(S.EMPTY), writes_markers=False)
    world.add((7, 3), P0)
    world.pass_time(TIMEOUT_MS - 10_000, wall_ms=step_ms)
    assert world.status is S.ONGOING
    world.pass_time(20_001, wall_ms=-step_ms)
    assert world.status is S.PREPARE_ABORT


def test_time_before_the_load_counts_as_far_as_it_is_known():
    world = World(value(S.ONGOING, partitions=(P0,), start_ms=START_MS - TIMEOUT_MS + 5_000))
    world.pass_time(10_000)
    assert world.status is S.COMPLETE_ABORT


def test_start_that_lies_in_the_future_counts_from_the_load():
    world = World(value(S.ONGOING, partitions=(P0,), start_ms=START_MS + DAY_MS))
    world.pass_time(TIMEOUT_MS)
    assert world.status is S.ONGOING
    world.pass_time(10_000)
    assert world.status is S.COMPLETE_ABORT


def test_abort_that_fails_is_tried_again_with_the_same_epoch():
    world = World(value(S.ONGOING, partitions=(P0,)), is_stuck=True, writes_markers=False)
    for _ in range(3):
        world.pass_time(TIMEOUT_MS + 10_000)
        assert len(world.waiting) == 1
        world.fail()
    world.is_stuck = False
    world.pass_time(10_000)
    assert world.markers[0].producer == (7, 4)


def test_move_on_its_way_is_not_timed_out():
    world = World(value(S.ONGOING, partitions=(P0,)), is_stuck=True, writes_markers=False)
    ticket = world.end((7, 3))
    world.pass_time(TIMEOUT_MS * 2)
    world.commit()
    assert world.status is S.PREPARE_COMMIT
    assert world.answers[ticket].error is ErrorCode.coordinator_not_available, "given up, and committed all the same"


def test_timeout_at_the_last_epoch_rotates_the_producer_id():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)))
    world.pass_time(TIMEOUT_MS + 10_000)
    assert world.stored()[:2] == (FIRST_NEW_PRODUCER_ID, 0)


def test_timeout_at_the_last_epoch_waits_for_a_producer_id():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), producer_ids=iter(()))
    world.pass_time(TIMEOUT_MS + 10_000)
    assert world.status is S.ONGOING
    world.producer_ids = iter((50,))
    world.pass_time(10_000)
    assert world.stored()[:2] == (50, 0)


@pytest.mark.parametrize("status", AT_REST)
def test_unused_id_is_forgotten(status):
    world = World(value(status))
    world.pass_time(EXPIRED_MS - HOUR_MS)
    assert world.describe().error is ErrorCode.none
    world.pass_time(2 * HOUR_MS)
    assert world.stored() is None
    assert world.describe().error is ErrorCode.transactional_id_not_found
    assert world.end((7, 3)).error is ErrorCode.invalid_producer_id_mapping
    assert world.init(Producer(7, 3)).producer == (FIRST_NEW_PRODUCER_ID, 0)


def test_id_with_a_transaction_or_a_decision_is_never_forgotten():
    open_, decided = value(S.ONGOING, partitions=(P0,)), value(S.PREPARE_COMMIT, partitions=(P0,))
    log = [record_of(open_._replace(timeout_ms=2**31 - 1), "open"), record_of(decided, "decided")]
    world = World(log=log, writes_markers=False)
    world.pass_time(EXPIRED_MS + 2 * HOUR_MS)
    assert world.log == log


@pytest.mark.parametrize("step_ms", [-10 * DAY_MS, 10 * DAY_MS])
def test_steps_of_the_wall_clock_forget_nothing(step_ms):
    world = World(value(S.EMPTY))
    world.pass_time(2 * HOUR_MS, wall_ms=step_ms)
    assert world.stored() is not None


def test_id_that_expired_before_the_load_is_forgotten():
    world = World(value(S.EMPTY, last_update_ms=START_MS - EXPIRED_MS))
    world.pass_time(HOUR_MS)
    assert world.stored() is None


def test_tombstone_whose_append_fails_leaves_the_id_as_it_was():
    world = World(value(S.EMPTY, last_update_ms=START_MS - EXPIRED_MS), is_stuck=True)
    world.pass_time(HOUR_MS)
    assert world.init().error is ErrorCode.concurrent_transactions
    world.fail()
    world.is_stuck = False
    assert world.init().producer == (7, 4)


def test_many_ids_are_forgotten_in_batches_of_bounded_size():
    names = [f"{number:0100}" for number in range(400)]
    old = value(S.EMPTY, last_update_ms=START_MS - EXPIRED_MS)
    world = World(log=[record_of(old, name) for name in names], is_stuck=True)
    world.pass_time(HOUR_MS)
    sizes = [sum(len(record.key) for record in records) for records in world.waiting.values()]
    assert len(sizes) == 3
    assert max(sizes) < 17 * 1024
    world.commit()
    tombstones = [decode_transaction_record(record.key, record.value) for record in world.log[400:]]
    assert [record.transactional_id for record in tombstones] == names
    assert all(record.value is None for record in tombstones)
    assert world.list() == []
