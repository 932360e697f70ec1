"""EndTxn by state, version, epoch and decision (TXN-6), and what a failed or late append of a decision leaves."""

import pytest

from esp.model.errors import ErrorCode
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.ending import BUMPING_CELLS, PLAIN_CELLS, Attempt
from esp.transactions.requests import Producer
from esp.transactions.responses import ProducerResult
from tests.unit.transactions.world import FIRST_NEW_PRODUCER_ID, P0, P1, START_MS, World, value

S = TransactionStatus
NEW = FIRST_NEW_PRODUCER_ID
NONE, BUSY = ErrorCode.none, ErrorCode.concurrent_transactions
FENCED, INVALID = ErrorCode.producer_fenced, ErrorCode.invalid_txn_state
CURRENT, BEFORE = (7, 3), (7, 2)

CELLS = [
    # state, raises the epoch, producer, answer to commit, answer to abort
    (S.EMPTY, True, CURRENT, INVALID, NONE),
    (S.EMPTY, True, BEFORE, FENCED, FENCED),
    (S.EMPTY, False, CURRENT, INVALID, INVALID),
    (S.EMPTY, False, BEFORE, FENCED, FENCED),
    (S.ONGOING, True, CURRENT, NONE, NONE),
    (S.ONGOING, True, BEFORE, FENCED, FENCED),
    (S.ONGOING, False, CURRENT, NONE, NONE),
    (S.ONGOING, False, BEFORE, FENCED, FENCED),
    (S.PREPARE_COMMIT, True, CURRENT, BUSY, BUSY),
    (S.PREPARE_COMMIT, True, BEFORE, BUSY, BUSY),
    (S.PREPARE_COMMIT, False, CURRENT, BUSY, BUSY),
    (S.PREPARE_COMMIT, False, BEFORE, FENCED, FENCED),
    (S.PREPARE_ABORT, True, CURRENT, BUSY, BUSY),
    (S.PREPARE_ABORT, True, BEFORE, BUSY, BUSY),
    (S.PREPARE_ABORT, False, CURRENT, BUSY, BUSY),
    (S.PREPARE_ABORT, False, BEFORE, FENCED, FENCED),
    (S.COMPLETE_COMMIT, True, CURRENT, INVALID, NONE),
    (S.COMPLETE_COMMIT, True, BEFORE, NONE, INVALID),
    (S.COMPLETE_COMMIT, False, CURRENT, NONE, INVALID),
    (S.COMPLETE_COMMIT, False, BEFORE, FENCED, FENCED),
    (S.COMPLETE_ABORT, True, CURRENT, INVALID, NONE),
    (S.COMPLETE_ABORT, True, BEFORE, INVALID, NONE),
    (S.COMPLETE_ABORT, False, CURRENT, INVALID, NONE),
    (S.COMPLETE_ABORT, False, BEFORE, FENCED, FENCED),
]


def opened(status, **options):
    return World(value(status, partitions=(P0, P1) if status in (S.ONGOING, *PREPARED) else ()), **options)


PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)


def test_every_stored_state_has_a_cell_for_every_attempt():
    for cells in (BUMPING_CELLS, PLAIN_CELLS):
        assert set(cells) == {S(number) for number in range(6)}
        assert all(set(row) == set(Attempt) for row in cells.values())


@pytest.mark.parametrize(("status", "bumps", "producer", "commit", "abort"), CELLS)
@pytest.mark.parametrize("is_commit", [True, False])
def test_cell(status, bumps, producer, commit, abort, is_commit):
    world = opened(status, writes_markers=status not in PREPARED)
    before = list(world.log)
    answer = world.end(producer, commit=is_commit, bumps=bumps)
    assert answer.error is (commit if is_commit else abort)
    is_decided = answer.error is NONE and (producer == CURRENT and (bumps or status is S.ONGOING))
    if is_decided:
        assert answer.producer == (7, 3 + bumps)
        assert world.status is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT)
        assert world.stored().producer_epoch == 3 + bumps
    else:
        assert world.log == before
        if answer.error is NONE:
            assert answer.producer == CURRENT


@pytest.mark.parametrize("status", [status for status in S if status < S.DEAD and status not in PREPARED])
@pytest.mark.parametrize("bumps", [True, False])
@pytest.mark.parametrize(
    ("producer", "error"),
    [
        ((7, 4), FENCED),
        ((7, 1), FENCED),
        ((7, -1), FENCED),
        ((6, 3), ErrorCode.invalid_producer_id_mapping),
        ((6, 32_766), ErrorCode.invalid_producer_id_mapping),
        ((-1, -1), ErrorCode.invalid_producer_id_mapping),
    ],
)
def test_other_producers_are_refused_and_nothing_changes(status, bumps, producer, error):
    world = opened(status)
    before = list(world.log)
    for is_commit in (True, False):
        assert world.end(producer, commit=is_commit, bumps=bumps) == ProducerResult(error)
    assert world.log == before


@pytest.mark.parametrize("bumps", [True, False])
def test_the_epoch_of_the_markers_of_an_exhausted_producer_waits_like_any_other(bumps):
    world = World(value(S.PREPARE_ABORT, (7, 32_767), partitions=(P0,)), writes_markers=False)
    assert world.end((7, 32_767), bumps=bumps) == ProducerResult(BUSY)
    assert world.verify((7, 32_767), P0)[P0] is BUSY


def test_unknown_id_is_refused():
    assert World().end((7, 3)) == ProducerResult(ErrorCode.invalid_producer_id_mapping)


@pytest.mark.parametrize("producer", [CURRENT, BEFORE, (7, 4), (6, 3), (8, 0)])
def test_move_on_its_way_is_looked_at_before_the_producer_whose_epoch_it_raises(producer):
    world = opened(S.ONGOING, is_stuck=True)
    world.end(CURRENT)
    assert world.end(producer) == ProducerResult(BUSY)


@pytest.mark.parametrize(
    ("producer", "error"),
    [
        (CURRENT, BUSY),
        (BEFORE, FENCED),
        ((7, 4), FENCED),
        ((6, 3), ErrorCode.invalid_producer_id_mapping),
        ((8, 0), ErrorCode.invalid_producer_id_mapping),
    ],
)
@pytest.mark.parametrize("status", [S.ONGOING, *PREPARED])
def test_wrong_producer_is_refused_while_a_move_is_on_its_way_that_leaves_the_epoch(status, producer, error):
    world = opened(status, is_stuck=True)
    if status is S.ONGOING:
        world.end(CURRENT, bumps=False)
    assert world.end(producer, bumps=False) == ProducerResult(error)


@pytest.mark.parametrize("bumps", [True, False])
def test_first_record_of_an_id_on_its_way_lets_the_end_wait(bumps):
    world = World(is_stuck=True)
    world.init()
    assert world.end((NEW, 0), bumps=bumps) == ProducerResult(BUSY)


def test_decision_is_answered_when_it_is_committed_and_not_before():
    world = opened(S.ONGOING, is_stuck=True, writes_markers=False)
    ticket = world.end(CURRENT)
    assert ticket not in world.answers
    assert world.markers == []
    world.commit()
    assert world.answers[ticket] == ProducerResult(NONE, Producer(7, 4))
    assert world.status is S.PREPARE_COMMIT


@pytest.mark.parametrize(("bumps", "version", "epoch"), [(True, 2, 4), (False, 0, 3)])
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_carry_the_decision_and_the_version_of_the_request(bumps, version, epoch, is_commit):
    world = opened(S.ONGOING, writes_markers=False)
    world.end(CURRENT, commit=is_commit, bumps=bumps)
    (effect,) = world.markers
    assert effect.producer == (7, epoch)
    assert effect.is_commit is is_commit
    assert effect.transaction_version == version
    assert set(effect.partitions) == {P0, P1}


def test_records_are_those_of_kafka():
    world = World(value(S.EMPTY))
    world.pass_time(5)
    world.add(CURRENT, P0, version=2)
    world.pass_time(5)
    world.end(CURRENT)
    records = [decode_transaction_record(record.key, record.value).value for record in world.log[1:]]
    begun = {"last_update_ms": START_MS + 5, "start_ms": START_MS + 5, "client_version": 2}
    ended = {**begun, "last_update_ms": START_MS + 10}
    assert records == [
        value(S.ONGOING, partitions=(P0,), **begun),
        value(S.PREPARE_COMMIT, (7, 4), partitions=(P0,), **ended),
        value(S.COMPLETE_COMMIT, (7, 4), **ended),
    ]


def test_transaction_of_bumping_clients_may_be_ended_by_an_old_one_without_a_bump():
    world = World(value(S.EMPTY))
    world.add(CURRENT, P0, version=2)
    assert world.end(CURRENT, bumps=False) == ProducerResult(NONE, Producer(*CURRENT))
    assert world.stored().client_version == 0


@pytest.mark.parametrize("status", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_abort_without_a_transaction_raises_the_epoch_and_needs_no_marker(status):
    world = opened(status, writes_markers=False)
    world.pass_time(7)
    assert world.end(CURRENT, commit=False).producer == (7, 4)
    assert world.markers == []
    assert world.status is S.COMPLETE_ABORT
    assert world.stored().start_ms == world.wall_ms


@pytest.mark.parametrize("is_commit", [True, False])
def test_retry_across_a_change_of_the_producer_id(is_commit):
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), writes_markers=False)
    assert world.end((7, 32_766), commit=is_commit) == ProducerResult(NONE, Producer(NEW, 0))
    assert world.stored()[:2] == (7, 32_767)
    assert world.stored().next_producer_id == NEW
    (effect,) = world.markers
    assert effect.producer == (7, 32_767)
    world.write_markers(effect)
    assert world.stored()[:2] == (NEW, 0)
    assert (world.stored().previous_producer_id, world.stored().next_producer_id) == (7, -1)
    for after in (world, world.reloaded()):
        assert after.end((7, 32_766), commit=is_commit) == ProducerResult(NONE, Producer(NEW, 0))
        assert after.end((7, 32_766), commit=not is_commit) == ProducerResult(INVALID)
        assert after.end((7, 32_765), commit=is_commit).error is ErrorCode.invalid_producer_id_mapping
    assert world.add((NEW, 0), P0, version=2) is NONE
    assert world.end((7, 32_766), commit=is_commit).error is ErrorCode.invalid_producer_id_mapping


def test_producer_whose_answer_was_lost_at_the_last_epoch_asks_for_the_new_one():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)))
    world.end((7, 32_766))
    assert world.init(Producer(7, 32_766)) == ProducerResult(NONE, Producer(NEW, 0))


def test_no_producer_has_epoch_32767():
    world = World(value(S.COMPLETE_ABORT, (7, 32_767)))
    assert world.add((7, 32_767), P0) is FENCED
    assert world.end((7, 32_767), commit=False).error is FENCED
    assert world.end((7, 32_766), commit=False) == ProducerResult(FENCED)


def test_without_a_producer_id_at_hand_nothing_is_decided():
    world = World(value(S.ONGOING, (7, 32_766), (P0,)), producer_ids=iter(()))
    assert world.end((7, 32_766)) == ProducerResult(ErrorCode.coordinator_load_in_progress)
    assert world.status is S.ONGOING


@pytest.mark.parametrize("bumps", [True, False])
def test_decision_whose_append_fails_is_none_and_raises_no_epoch(bumps):
    world = opened(S.ONGOING, is_stuck=True)
    for _ in range(3):
        ticket = world.end(CURRENT, bumps=bumps)
        world.fail()
        assert world.answers[ticket] == ProducerResult(ErrorCode.coordinator_not_available)
    assert world.markers == []
    world.is_stuck = False
    assert world.end(CURRENT, commit=False, bumps=bumps).producer == (7, 3 + bumps)
    assert world.status is S.COMPLETE_ABORT


def test_owner_may_ask_for_the_epoch_that_the_end_gave():
    world = opened(S.ONGOING)
    world.end(CURRENT)
    assert world.init(Producer(*CURRENT)) == ProducerResult(NONE, Producer(7, 4))
    assert world.stored().producer_epoch == 4
