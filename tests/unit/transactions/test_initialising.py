"""InitProducerId with a transactional id: TRANSACTIONS cells by state and claim (TXN-2, TXN-3, KIP-360)."""

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.initialising import CELLS, Claim, Step
from esp.transactions.requests import Producer
from esp.transactions.responses import ProducerResult
from tests.unit.transactions.world import FIRST_NEW_PRODUCER_ID, P0, P1, World, value

S = TransactionStatus
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
FENCED = ProducerResult(ErrorCode.producer_fenced)
BUSY = ProducerResult(ErrorCode.concurrent_transactions)
NEW = FIRST_NEW_PRODUCER_ID


def given(producer_id, epoch):
    return ProducerResult(ErrorCode.none, Producer(producer_id, epoch))


def test_every_stored_state_has_a_cell_for_every_claim():
    assert set(CELLS) == {S(number) for number in range(6)}
    assert all(set(row) == set(Claim) for row in CELLS.values())
    assert all(isinstance(cell, Step | ErrorCode) for row in CELLS.values() for cell in row.values())


@pytest.mark.parametrize("expected", [None, Producer(99, 9)])
def test_unknown_id_gets_a_new_producer(expected):
    world = World()
    assert world.init(expected) == given(NEW, 0)
    assert world.stored() == value(S.EMPTY, (NEW, 0))


@pytest.mark.parametrize("status", AT_REST)
def test_new_instance_gets_the_next_epoch(status):
    world = World(value(status))
    assert world.init() == given(7, 4)
    assert world.status is S.EMPTY
    assert world.stored().partitions is None
    assert world.init(Producer(7, 3)) == FENCED, "the producer before the new instance is a zombie"


@pytest.mark.parametrize("status", AT_REST)
def test_known_producer_gets_the_next_epoch_and_the_same_answer_again(status):
    world = World(value(status))
    assert world.init(Producer(7, 3)) == given(7, 4)
    assert world.init(Producer(7, 3)) == given(7, 4)
    assert world.init(Producer(7, 3)) == given(7, 4)
    assert world.stored().producer_epoch == 4


def test_last_epoch_is_not_known_after_a_move_of_the_coordinator():
    world = World(value(S.EMPTY))
    world.init(Producer(7, 3))
    assert world.reloaded().init(Producer(7, 3)) == FENCED


@pytest.mark.parametrize("status", AT_REST)
@pytest.mark.parametrize("zombie", [Producer(7, 2), Producer(7, 4), Producer(6, 3), Producer(8, 3), Producer(7, -1)])
def test_other_producers_are_fenced_and_nothing_changes(status, zombie):
    world = World(value(status))
    before = list(world.log)
    assert world.init(zombie) == FENCED
    assert world.log == before


@pytest.mark.parametrize("expected", [None, Producer(7, 3)])
def test_open_transaction_is_aborted_with_one_epoch_more_and_the_next_try_gets_another(expected):
    world = World(value(S.ONGOING, partitions=(P0, P1)), writes_markers=False)
    assert world.init(expected) == BUSY
    assert world.status is S.PREPARE_ABORT
    (effect,) = world.markers
    assert (effect.producer, effect.is_commit) == (Producer(7, 4), False)
    assert world.init() == BUSY
    world.write_markers(effect)
    assert world.status is S.COMPLETE_ABORT
    assert world.init() == given(7, 5)


@pytest.mark.parametrize("zombie", [Producer(7, 2), Producer(7, 4), Producer(6, 3)])
def test_zombie_does_not_end_the_transaction_of_the_owner(zombie):
    world = World(value(S.ONGOING, partitions=(P0,)))
    assert world.init(zombie) == FENCED
    assert world.status is S.ONGOING
    assert world.end((7, 3)).error is ErrorCode.none


def test_repeated_request_from_before_the_transaction_does_not_end_it():
    world = World(value(S.EMPTY))
    world.init(Producer(7, 3))
    world.add((7, 4), P0)
    assert world.init(Producer(7, 3)) == FENCED
    assert world.status is S.ONGOING


@pytest.mark.parametrize(("level", "epoch", "after"), [(1, 3, (7, 4)), (2, 3, (7, 4)), (2, 32_766, (NEW, 0))])
def test_producer_that_fences_its_own_transaction_gets_the_raised_epoch(level, epoch, after):
    world = World(value(S.ONGOING, (7, epoch), partitions=(P0,)), level=level)
    assert world.init(Producer(7, epoch)) == ProducerResult(ErrorCode.concurrent_transactions)
    for _ in range(2):
        assert world.init(Producer(7, epoch)) == ProducerResult(ErrorCode.none, Producer(*after))


def test_fenced_producer_gets_no_epoch_any_more():
    world = World(value(S.ONGOING, partitions=(P0,)))
    world.init()
    assert world.status is S.COMPLETE_ABORT
    assert world.init(Producer(7, 3)) == FENCED


@pytest.mark.parametrize("status", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
@pytest.mark.parametrize("expected", [None, Producer(7, 3), Producer(7, 2), Producer(6, 3)])
def test_decision_that_is_not_completed_lets_all_wait(status, expected):
    world = World(value(status, partitions=(P0,)), writes_markers=False)
    assert world.init(expected) == BUSY
    assert world.status is status


@pytest.mark.parametrize("expected", [None, Producer(7, 3), Producer(7, 2)])
def test_move_on_its_way_is_looked_at_before_the_epoch(expected):
    world = World(value(S.EMPTY), is_stuck=True)
    world.init()
    assert world.init(expected) == BUSY


def test_first_move_on_its_way_lets_others_wait():
    world = World(is_stuck=True)
    ticket = world.init()
    assert world.init() == BUSY
    world.commit()
    assert world.answers[ticket] == given(NEW, 0)


def test_epochs_end_at_32766_and_another_producer_id_follows():
    world = World(value(S.EMPTY, (7, 32_765)))
    assert world.init() == given(7, 32_766)
    assert world.init() == given(NEW, 0)
    assert world.stored().previous_producer_id == 7
    world.init()
    assert world.stored().previous_producer_id == NEW


def test_answer_of_a_rotation_is_given_again():
    world = World(value(S.EMPTY, (7, 32_766)))
    assert world.init(Producer(7, 32_766)) == given(NEW, 0)
    assert world.init(Producer(7, 32_766)) == given(NEW, 0)
    assert world.init(Producer(7, 32_765)) == FENCED
    assert world.init() == given(NEW, 1)
    assert world.init(Producer(7, 32_766)) == FENCED


@pytest.mark.parametrize(("level", "after"), [(1, (7, 32_767)), (2, (NEW, 0))])
def test_fence_at_the_last_epoch_sends_markers_with_32767(level, after):
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), writes_markers=False, level=level)
    assert world.init() == BUSY
    (effect,) = world.markers
    assert effect.producer == Producer(7, 32_767)
    world.write_markers(effect)
    assert (world.stored().producer_id, world.stored().producer_epoch) == after
    assert world.init().producer in ((NEW, 0), (NEW, 1))


def test_no_producer_that_asks_again_is_given_epoch_32767():
    """Below level 2 a time-out at the last epoch leaves it in the completed abort."""
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), level=1)
    assert world.init(Producer(7, 32_766)) == BUSY
    assert (world.stored().producer_id, world.stored().producer_epoch) == (7, 32_767)
    for _ in range(2):  # the second time, its answer was lost
        assert world.init(Producer(7, 32_766)) == given(NEW, 0)


def test_fence_at_the_last_epoch_survives_a_move_of_the_coordinator():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), writes_markers=False)
    world.init()
    after = world.reloaded()
    assert (after.stored().producer_id, after.stored().producer_epoch) == (NEW, 0)


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeout_out_of_range_is_refused(timeout_ms):
    world = World()
    assert world.init(timeout_ms=timeout_ms) == ProducerResult(ErrorCode.invalid_transaction_timeout)
    assert world.log == []


def test_timeout_is_that_of_the_last_request():
    world = World()
    world.init(timeout_ms=900_000)
    world.init(timeout_ms=1)
    assert world.stored().timeout_ms == 1


@pytest.mark.parametrize("stored", [(), (value(S.EMPTY, (7, 32_766)),), (value(S.ONGOING, (7, 32_766), (P0,)),)])
def test_without_a_producer_id_at_hand_the_client_asks_again(stored):
    world = World(*stored, producer_ids=iter(()))
    before = list(world.log)
    assert world.init() == ProducerResult(ErrorCode.coordinator_load_in_progress)
    assert world.log == before
    world.producer_ids = iter((NEW, NEW + 1))
    assert world.init().error in (ErrorCode.none, ErrorCode.concurrent_transactions)


@pytest.mark.parametrize(
    ("failure", "answer"),
    [
        (ErrorCode.unknown_topic_or_partition, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas, ErrorCode.coordinator_not_available),
        (ErrorCode.not_enough_replicas_after_append, ErrorCode.coordinator_not_available),
        (ErrorCode.request_timed_out, ErrorCode.coordinator_not_available),
        (ErrorCode.not_leader_or_follower, ErrorCode.not_coordinator),
        (ErrorCode.kafka_storage_error, ErrorCode.not_coordinator),
        (ErrorCode.message_too_large, ErrorCode.unknown_server_error),
    ],
)
def test_append_that_fails_changes_nothing(failure, answer):
    world = World(value(S.EMPTY), is_stuck=True)
    ticket = world.init()
    world.fail(failure)
    assert world.answers[ticket] == ProducerResult(answer)
    world.is_stuck = False
    assert world.init() == given(7, 4), "the epoch of the failed move is not skipped"


def test_append_of_a_new_id_that_fails_leaves_no_id():
    world = World(is_stuck=True)
    world.init()
    world.fail()
    assert world.describe().error is ErrorCode.transactional_id_not_found
    world.is_stuck = False
    assert world.init() == given(NEW + 1, 0)


def test_fence_that_fails_is_not_counted():
    world = World(value(S.ONGOING, partitions=(P0,)), is_stuck=True)
    for _ in range(3):
        ticket = world.init()
        world.fail()
        assert world.answers[ticket] == ProducerResult(ErrorCode.coordinator_not_available)
    world.is_stuck = False
    world.init()
    assert world.stored().producer_epoch == 4
