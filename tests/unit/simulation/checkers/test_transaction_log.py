"""The moves of coordinators that may follow one another, and the transactions in the batches of a partition."""

import pytest

from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.simulation.checkers.transaction_log import MarkerSeen, PartitionFold, find_wrong_move
from esp.transactions.requests import Producer

S = TransactionStatus


def value(status: TransactionStatus, epoch: int, producer_id: int = 7, client_version: int = 0) -> TransactionValue:
    return TransactionValue(producer_id, epoch, 1000, status, (), 0, 0, client_version=client_version)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (value(S.ONGOING, 3), value(S.PREPARE_COMMIT, 4)),
        (value(S.PREPARE_COMMIT, 4), value(S.COMPLETE_COMMIT, 4)),
        (value(S.PREPARE_ABORT, 32_767), value(S.COMPLETE_ABORT, 0, producer_id=8)),
        (value(S.COMPLETE_COMMIT, 4), value(S.EMPTY, 5)),
        (value(S.PREPARE_ABORT, 32_767, client_version=1), value(S.COMPLETE_ABORT, 32_767)),
        (value(S.COMPLETE_ABORT, 32_767), value(S.EMPTY, 0, producer_id=8)),
    ],
)
def test_moves_that_are_right(before: TransactionValue, after: TransactionValue) -> None:
    assert find_wrong_move(before, after) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (value(S.PREPARE_COMMIT, 4), value(S.COMPLETE_ABORT, 4)),
        (value(S.PREPARE_ABORT, 4), value(S.ONGOING, 4)),
        (value(S.ONGOING, 3), value(S.PREPARE_ABORT, 5)),
        (value(S.COMPLETE_COMMIT, 4), value(S.EMPTY, 0, producer_id=8)),
        (value(S.PREPARE_ABORT, 32_767, client_version=2), value(S.COMPLETE_ABORT, 32_767)),
        (value(S.PREPARE_COMMIT, 32_767), value(S.COMPLETE_COMMIT, 32_767)),
        (value(S.COMPLETE_ABORT, 32_767), value(S.ONGOING, 32_767)),
    ],
)
def test_moves_that_are_wrong(before: TransactionValue, after: TransactionValue) -> None:
    assert find_wrong_move(before, after) is not None


def test_a_marker_decides_about_what_its_producer_wrote_since_the_last_one() -> None:
    fold = PartitionFold()
    fold.on_data(7, 0, 111)
    fold.on_data(8, 1, 222)
    assert fold.last_stable_offset(2) == 0
    fold.on_marker(MarkerSeen(2, Producer(7, 1), is_commit=False))
    assert (fold.is_committed(7, 111), fold.is_committed(8, 222)) == (False, None)
    assert fold.is_committed(8, 111) is None, "of another producer, with the same checksum"
    assert fold.decided_at == {0: False}
    assert (fold.last_stable_offset(2), fold.last_stable_offset(3)) == (0, 1)


def test_where_compaction_took_the_first_records_a_transaction_that_has_ended_begins_later() -> None:
    fold = PartitionFold()
    for offset in range(3):
        fold.on_data(7, offset, offset)
    fold.on_marker(MarkerSeen(3, Producer(7, 0), is_commit=True))
    fold.on_data(8, 4, 4)
    places = [(7, 2), (8, 4)]
    assert (fold.last_stable_offset(3), fold.last_stable_offset_of(3, places)) == (0, 2)
    assert fold.last_stable_offset_of(3, [(8, 1)]) == 3
    assert fold.last_stable_offset_of(6, []) == 4
