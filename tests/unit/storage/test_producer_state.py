"""PROD-1..8."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, read_header
from esp.records.transaction_marker import Marker, build_marker
from esp.storage.producer_state import BATCHES_KEPT, CompletedTransaction, ProducerStates
from tests.unit.storage.helpers import make_batch

LAST = 2**31 - 1


def header(
    sequence: int, *, records: int = 1, epoch: int = 0, offset: int = 0, producer: int = 9, timestamp: int = 1000
) -> BatchHeader:
    return read_header(make_batch(offset, records=records, producer=(producer, epoch, sequence), timestamp=timestamp))


def refused(states: ProducerStates, batch: BatchHeader) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        states.check(batch)
    return caught.value.code


def known(*batches: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    for batch in batches:
        states.update(batch)
    return states


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert ProducerStates().check(header(4711)) is None


def test_an_older_epoch_is_refused() -> None:
    assert refused(known(header(0, epoch=3)), header(1, epoch=2)) is ErrorCode.invalid_producer_epoch


def test_a_newer_epoch_begins_at_sequence_zero() -> None:
    states = known(header(0, epoch=3))
    assert refused(states, header(1, epoch=4)) is ErrorCode.out_of_order_sequence_number
    assert states.check(header(0, epoch=4)) is None


def test_sequences_follow_one_another() -> None:
    states = known(header(0, records=3))
    assert states.check(header(3)) is None
    assert refused(states, header(4)) is ErrorCode.out_of_order_sequence_number
    assert refused(states, header(1)) is ErrorCode.out_of_order_sequence_number


def test_next_sequence_is_told_of_the_same_epoch_only() -> None:
    states = known(header(0, records=3), header(3))
    assert states.next_sequence(9, 0) == 4
    assert states.next_sequence(9, 1) == states.next_sequence(8, 0) == 0
    assert known(header(LAST)).next_sequence(9, 0) == 0


def test_sequences_wrap_to_zero() -> None:
    assert known(header(LAST)).check(header(0)) is None
    states = known(header(LAST - 1, records=4))
    assert states.check(header(2)) is None
    assert states.check(header(LAST - 1, records=4)) == 0


def test_one_of_the_last_five_batches_is_a_duplicate_and_an_older_one_is_out_of_order() -> None:
    batches = [header(2 * number, records=2, offset=100 + 2 * number) for number in range(7)]
    states = known(*batches)
    for batch in batches[-BATCHES_KEPT:]:
        assert states.check(batch) == batch.base_offset
    for batch in batches[:-BATCHES_KEPT]:
        assert refused(states, batch) is ErrorCode.out_of_order_sequence_number


def test_a_part_of_a_batch_is_no_duplicate() -> None:
    states = known(header(0, records=2))
    assert refused(states, header(0)) is ErrorCode.out_of_order_sequence_number


def test_a_new_epoch_forgets_the_batches_of_the_old_one() -> None:
    states = known(header(0), header(0, epoch=1, offset=1))
    state = states.get(9)
    assert state is not None
    assert [batch.base_offset for batch in state.batches] == [1]


def test_producers_expire_by_time_but_not_within_a_transaction() -> None:
    states = known(header(0, timestamp=1000), header(0, producer=10, timestamp=2000))
    open_transaction = states.get(9)
    assert open_transaction is not None
    assert states.expire(now_ms=2500, expiration_ms=1000) == 1
    assert states.get(9) is None
    survivor = states.get(10)
    assert survivor is not None
    survivor.transaction_first_offset = 7
    assert states.expire(now_ms=10**9, expiration_ms=1000) == 0


def test_the_empty_snapshot_has_ten_bytes() -> None:
    assert len(ProducerStates().encode()) == 10


def test_a_snapshot_has_kafka_s_layout() -> None:
    data = known(header(5, records=3, epoch=2, offset=40, timestamp=1000)).encode()
    assert data[:2] == b"\x00\x01"
    assert struct.unpack(">i", data[6:10]) == (1,)
    assert struct.unpack(">qhiqiqiq", data[10:]) == (9, 2, 7, 42, 2, 1002, -1, -1)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.booleans()), max_size=25))
def test_a_snapshot_keeps_the_last_batch_of_each_producer(history: list[tuple[int, int, bool]]) -> None:
    states = ProducerStates()
    sequences: dict[int, tuple[int, int]] = {}
    offset = 0
    for producer, records, bump in history:
        epoch, sequence = sequences.get(producer, (0, 0))
        if bump:
            epoch, sequence = epoch + 1, 0
        states.update(header(sequence, records=records, epoch=epoch, offset=offset, producer=producer))
        sequences[producer] = epoch, sequence + records
        offset += records
    again = ProducerStates.decode(states.encode())
    assert {producer for producer, _ in again.items()} == sequences.keys()
    for producer, state in states.items():
        loaded = again.get(producer)
        assert loaded is not None
        assert (loaded.epoch, loaded.batches) == (state.epoch, state.batches[-1:])
        assert loaded.last_timestamp == state.last_timestamp


def test_batches_that_a_snapshot_left_out_are_put_before_the_known_ones() -> None:
    batches = [header(number, offset=number) for number in range(8)]
    states = ProducerStates.decode(known(*batches[:7]).encode())
    states.update(batches[7])
    states.add_older(batches)
    state = states.get(9)
    assert state is not None
    assert [batch.base_offset for batch in state.batches] == [3, 4, 5, 6, 7]


def test_a_producer_of_which_a_marker_stands_last_gets_no_older_batches() -> None:
    states = ProducerStates()
    marker = header(-1, epoch=1, offset=5)
    states.update(marker._replace(attributes=marker.attributes | CONTROL_BIT))
    states.add_older([header(0, epoch=1, offset=0)])
    state = states.get(9)
    assert state is not None
    assert (state.epoch, state.batches) == (1, [])


@pytest.mark.parametrize("damage", ["cut", "flip", "version", "count"])
def test_a_damaged_snapshot_is_noticed(damage: str) -> None:
    data = bytearray(known(header(0)).encode())
    if damage == "cut":
        del data[-1:]
    elif damage == "flip":
        data[20] ^= 1
    elif damage == "version":
        data[1] = 2
    else:
        del data[5:]
    with pytest.raises(CorruptionError):
        ProducerStates.decode(bytes(data))


# --- transactions ------------------------------------------------------------------------------------------------------------------


def transactional(sequence: int, *, producer: int = 9, epoch: int = 0, offset: int = 0) -> BatchHeader:
    return read_header(make_batch(offset, producer=(producer, epoch, sequence), transactional=True))


def control(offset: int, *, producer: int = 9, epoch: int = 0, records: int = 1) -> BatchHeader:
    marker = read_header(build_marker(producer, epoch, is_commit=True, coordinator_epoch=0, timestamp_ms=2000))
    return marker._replace(base_offset=offset, record_count=records)


COMMIT = Marker(is_commit=True, coordinator_epoch=0)
ABORT = Marker(is_commit=False, coordinator_epoch=4)


def test_a_transaction_opens_with_its_first_batch_and_ends_with_its_marker() -> None:
    states = known(header(0))
    assert not states.has_transactions
    assert states.first_unstable_offset(0) is None
    assert states.update(transactional(1, offset=1)) is None
    states.update(transactional(2, offset=2))
    assert states.has_open_transaction(9, 0)
    assert not states.has_open_transaction(9, 1)
    assert not states.has_open_transaction(8, 0)
    assert states.first_unstable_offset(3) == 1
    assert states.update(control(3), ABORT) == CompletedTransaction(9, 1, 3, is_commit=False, last_stable_offset=4)
    assert not states.has_open_transaction(9, 0)


def test_a_marker_brings_the_coordinator_epoch_and_refreshes_the_time() -> None:
    states = known(transactional(0))
    states.update(control(1, epoch=1), ABORT)
    state = states.get(9)
    assert state is not None
    assert (state.epoch, state.last_sequence, state.coordinator_epoch) == (1, -1, 4)
    assert states.expire(now_ms=2999, expiration_ms=1000) == 0
    assert states.expire(now_ms=3000, expiration_ms=1000) == 1


def test_a_marker_of_the_same_epoch_keeps_the_sequence() -> None:
    states = known(transactional(5))
    states.update(control(1), COMMIT)
    assert states.next_sequence(9, 0) == 6


def test_the_oldest_transaction_s_producer_gives_the_time_of_its_last_batch() -> None:
    states = ProducerStates()
    assert states.oldest_open_timestamp is None
    other = header(0, offset=7, producer=10, timestamp=2000)
    for batch in (transactional(0), other._replace(attributes=other.attributes | TRANSACTIONAL_BIT)):
        states.update(batch)
    assert states.oldest_open_timestamp == 1000
    states.update(control(8), COMMIT)
    assert states.oldest_open_timestamp == 2000


def test_a_marker_without_data_ends_nothing_but_is_remembered() -> None:
    states = ProducerStates()
    assert states.update(control(0, epoch=3), ABORT) is None
    state = states.get(9)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch) == (3, 4)
    assert not states.has_transactions


def test_the_epoch_of_an_empty_control_batch_counts() -> None:
    states = known(transactional(0))
    assert states.update(control(3, epoch=2, records=0)) is None
    state = states.get(9)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch, state.transaction_first_offset) == (2, -1, -1)
    assert states.first_unstable_offset(0) is None


def test_an_emptied_data_batch_opens_no_transaction() -> None:
    states = known(transactional(4)._replace(record_count=0))
    assert not states.has_transactions
    assert states.next_sequence(9, 0) == 5


def test_a_control_record_of_another_kind_ends_no_transaction() -> None:
    states = known(transactional(0), control(1))
    assert states.has_open_transaction(9, 0)


def test_an_ended_transaction_is_unstable_until_its_marker_is_committed() -> None:
    states = known(transactional(0, offset=5))
    states.update(control(6), COMMIT)
    assert states.first_unstable_offset(5) == 5
    assert states.first_unstable_offset(6) == 5
    assert states.has_transactions
    assert states.first_unstable_offset(7) is None
    assert not states.has_transactions


def test_the_last_stable_offset_of_an_abort_is_the_oldest_other_open_transaction() -> None:
    states = known(transactional(0, producer=1), transactional(0, offset=1, producer=2))
    ended = states.update(control(2, producer=2), ABORT)
    assert ended == CompletedTransaction(2, 1, 2, is_commit=False, last_stable_offset=0)
    ended = states.update(control(3, producer=1), ABORT)
    assert ended == CompletedTransaction(1, 0, 3, is_commit=False, last_stable_offset=4)


def test_open_transactions_are_in_the_snapshot() -> None:
    states = known(transactional(0, producer=2, offset=3), transactional(0, producer=1, offset=4))
    states.update(control(5, producer=3), ABORT)
    again = ProducerStates.decode(states.encode())
    assert again.first_unstable_offset(0) == 3
    assert again.encode() == states.encode()
    again.update(control(6, producer=2), COMMIT)
    assert again.first_unstable_offset(7) == 4
    state = again.get(3)
    assert state is not None
    assert state.coordinator_epoch == 4


Step = tuple[int, str, int]


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from(["data", "commit", "abort", "plain"]), st.integers(0, 3))))
def test_unstable_offsets_match_a_naive_model(history: list[Step]) -> None:
    states = ProducerStates()
    transactions: list[tuple[int, int | None]] = []
    current: dict[int, int] = {}
    high_watermark = 0
    for offset, (producer, kind, advance) in enumerate(history):
        if kind in ("data", "plain"):
            batch = transactional(0, producer=producer, offset=offset)
            if kind == "plain":
                batch = batch._replace(attributes=0)
            elif producer not in current:
                current[producer] = offset
            states.update(batch)
        else:
            completed = states.update(control(offset, producer=producer), COMMIT if kind == "commit" else ABORT)
            assert (completed is not None) == (producer in current)
            if completed is not None:
                assert (completed.first_offset, completed.is_commit) == (current[producer], kind == "commit")
                transactions.append((current.pop(producer), offset))
                assert completed.last_stable_offset == min(current.values(), default=offset + 1)
        high_watermark = min(offset + 1, high_watermark + advance)
        unstable = [first for first, last in transactions if last is not None and last >= high_watermark]
        wanted = min([*unstable, *current.values()], default=None)
        assert states.first_unstable_offset(high_watermark) == wanted
        assert states.has_transactions == (wanted is not None)
