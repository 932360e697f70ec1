"""Transactions at the leader of a partition: batches that wait for a coordinator's word, and markers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import read_marker
from esp.replication.end_marker import EndMarker
from esp.replication.verification import OPEN, PRODUCERS_MAX, UNVERIFIED, Verifications
from tests.unit.replication.logs import ME, leading, state

PID = 7
NOW_MS = 1_700_000_000_000


def lone(epochs=(), **settings):
    return leading(list(epochs), state(isr=(ME,), replicas=(ME,)), **settings)


def batch(sequence=0, *, epoch=0, records=1, transactional=True, producer_id=PID):
    built = build_batch(
        [NewRecord(b"v")] * records,
        timestamp_ms=NOW_MS,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return memoryview(bytearray(built))


def guard_of(leader, sequence=0, *, epoch=0, zero=False):
    return leader.begin_verification(PID, epoch, sequence, starts_at_zero=zero)


def append(leader, sequence=0, *, epoch=0, guard=None, zero=False):
    guard = guard or guard_of(leader, sequence, epoch=epoch, zero=zero)
    return leader.append(batch(sequence, epoch=epoch), -1, NOW_MS, guard=guard)


def end(leader, *, epoch=0, version=0, coordinator_epoch=0, commit=True):
    return leader.append_marker(EndMarker(PID, epoch, commit, coordinator_epoch, version), NOW_MS)


def refusal(method, *arguments, **more):
    with pytest.raises(ApiError) as caught:
        method(*arguments, **more)
    return caught.value.code


def test_a_transaction_is_verified_once_and_open_from_its_first_batch_on():
    leader = lone()
    guard = guard_of(leader)
    assert guard is not OPEN
    append(leader, 0, guard=guard)
    assert guard_of(leader, 1) is OPEN
    append(leader, 1)
    end(leader)
    assert guard_of(leader, 2) is not OPEN


def test_a_marker_between_verification_and_append_makes_the_append_void():
    leader = lone()
    append(leader, 0)
    end(leader)
    guard = guard_of(leader, 1)  # and the coordinator says yes, before it decides to abort
    end(leader, commit=False)
    before = leader.log.log_end_offset
    assert refusal(append, leader, 1, guard=guard) is ErrorCode.invalid_txn_state
    assert leader.log.log_end_offset == before
    append(leader, 1, guard=guard_of(leader, 1))


def test_a_late_batch_after_the_marker_is_refused_without_a_question():
    leader = lone()
    append(leader, 0)
    guard = guard_of(leader, 1)
    assert guard is OPEN
    end(leader)
    assert refusal(append, leader, 1, guard=guard) is ErrorCode.invalid_txn_state


def test_a_batch_of_the_old_epoch_after_a_marker_of_the_next_is_refused():
    leader = lone()
    append(leader, 0)
    end(leader, epoch=1, version=2)
    assert refusal(guard_of, leader, 1) is ErrorCode.invalid_producer_epoch
    assert refusal(append, leader, 1, guard=OPEN) is ErrorCode.invalid_producer_epoch
    append(leader, 0, epoch=1, zero=True)


def test_another_leader_knows_no_guards():
    before, after = lone(), lone()
    assert refusal(append, after, 0, guard=guard_of(before)) is ErrorCode.invalid_txn_state


def test_another_leader_knows_the_open_transaction_from_the_log():
    leader = lone()
    append(leader, 0)
    epoch = leader.leader_epoch + 1
    leader.log.begin_epoch(epoch)
    again = type(leader)(
        leader.log,
        state(isr=(ME,), replicas=(ME,), epoch=epoch, partition_epoch=11),
        ME,
        now_us=0,
        lag_time_max_us=1,
        is_eligible=lambda *_: True,
    )
    assert again.begin_verification(PID, 0, 1, starts_at_zero=False) is OPEN
    again.append(batch(1), -1, NOW_MS, guard=OPEN)


def test_sequence_1_that_was_verified_first_waits_for_sequence_0():
    leader = lone()
    early = guard_of(leader, 1)
    late = guard_of(leader, 0)
    assert early is late
    assert refusal(append, leader, 1, guard=early) is ErrorCode.out_of_order_sequence_number
    append(leader, 0, guard=late)
    append(leader, 1, guard=early)


def test_the_lowest_sequence_is_known_across_the_end_of_the_numbers():
    leader = lone()
    highest = 2**31 - 1
    guard = guard_of(leader, 0)
    assert guard_of(leader, highest) is guard
    assert refusal(append, leader, 0, guard=guard) is ErrorCode.out_of_order_sequence_number
    append(leader, highest, guard=guard)
    append(leader, 0, guard=guard)


def test_under_version_2_a_transaction_begins_with_sequence_0():
    leader = lone()
    assert refusal(append, leader, 1, zero=True) is ErrorCode.out_of_order_sequence_number
    append(leader, 0, zero=True)


def test_under_version_1_sequences_go_on_and_the_log_may_have_forgotten_the_producer():
    append(lone(), 17)


def test_guards_of_one_epoch_are_not_those_of_another():
    leader = lone()
    older, newer = guard_of(leader, epoch=0), guard_of(leader, epoch=1)
    assert older is not newer
    assert refusal(append, leader, 0, epoch=1, guard=older) is ErrorCode.invalid_txn_state
    append(leader, 0, epoch=1, guard=newer)
    assert refusal(append, leader, 0, guard=older) is ErrorCode.invalid_producer_epoch


def test_a_refused_transaction_leaves_no_guard_and_no_sequence():
    leader = lone()
    guard = guard_of(leader, 3)
    leader.forget_verification(PID, 0, guard)
    assert refusal(append, leader, 3, guard=guard) is ErrorCode.invalid_txn_state
    append(leader, 5)


def test_forgetting_an_old_guard_leaves_the_new_one():
    leader = lone()
    old = guard_of(leader)
    end(leader)
    new = guard_of(leader)
    leader.forget_verification(PID, 0, old)
    append(leader, 0, guard=new)


def test_without_verification_any_transactional_batch_is_appended():
    append(lone(), 4, guard=UNVERIFIED)


def test_a_transactional_batch_of_a_request_without_a_transactional_id_is_refused():
    code = refusal(lone().append, batch(), -1, NOW_MS)
    assert code is ErrorCode.transactional_id_authorization_failed


@pytest.mark.parametrize("sequence", [1, 5, 2**31 - 2])
def test_a_transaction_under_an_epoch_of_its_own_begins_with_sequence_0(sequence):
    leader = lone()
    assert refusal(append, leader, sequence, zero=True) is ErrorCode.out_of_order_sequence_number
    append(leader, 0, zero=True)


def test_a_marker_without_a_producer_is_refused():
    leader = lone()
    marker = EndMarker(-1, 0, True, 0)
    assert refusal(leader.append_marker, marker, NOW_MS) is ErrorCode.unknown_server_error
    assert leader.log.log_end_offset == 0


def test_a_transactional_batch_without_a_producer_opens_no_transaction():
    nameless = build_batch([NewRecord(b"v")], timestamp_ms=NOW_MS, transactional=True)
    leader = lone()
    leader.append(memoryview(bytearray(nameless)), -1, NOW_MS, guard=UNVERIFIED)
    assert leader.log.producers.first_unstable_offset(1) is None
    assert refusal(lone().append, memoryview(bytearray(nameless)), -1, NOW_MS) is (
        ErrorCode.transactional_id_authorization_failed
    )


def test_a_plain_batch_is_refused_while_its_producers_transaction_is_open():
    leader = lone()
    append(leader, 0)
    plain = batch(1, transactional=False)
    assert refusal(leader.append, plain, -1, NOW_MS) is ErrorCode.invalid_txn_state
    end(leader)
    leader.append(plain, -1, NOW_MS)


def test_a_duplicate_is_answered_without_a_guard_also_after_the_marker():
    leader = lone()
    base_offset, _, _ = append(leader, 0)
    end(leader)
    assert leader.append(batch(0), -1, NOW_MS, guard=guard_of(leader)) == (base_offset, base_offset + 1, -1)


def test_guards_are_bounded():
    verifications = Verifications()
    for producer_id in range(PRODUCERS_MAX + 5):
        verifications.begin(producer_id, 0, 0, starts_at_zero=False)
    assert len(verifications._by_producer) == PRODUCERS_MAX


# Markers.


def test_a_marker_ends_the_transaction_and_is_committed_like_any_batch():
    leader = lone()
    append(leader, 0)
    assert leader.log.producers.first_unstable_offset(1) == 0
    assert end(leader, coordinator_epoch=3, commit=False) == (1, 2, -1)
    kept = leader.log.batches[-1]
    assert read_marker(kept.data) == (False, 3)
    assert (kept.header.leader_epoch, kept.header.max_timestamp) == (leader.leader_epoch, NOW_MS)
    assert leader.log.high_watermark == 2
    assert leader.log.producers.first_unstable_offset(2) is None


@pytest.mark.parametrize(
    ("version", "epoch", "code"),
    [
        (0, 4, ErrorCode.invalid_producer_epoch),
        (0, 5, None),
        (0, 6, None),
        (1, 5, None),
        (2, 4, ErrorCode.invalid_producer_epoch),
        (2, 5, ErrorCode.invalid_producer_epoch),
        (2, 6, None),
        (7, 5, ErrorCode.invalid_producer_epoch),
        (0, -1, ErrorCode.unknown_server_error),
        (-1, 4, ErrorCode.invalid_producer_epoch),
        (-1, 5, ErrorCode.unknown_server_error),
    ],
)
def test_the_epoch_of_a_marker_for_an_open_transaction(version, epoch, code):
    leader = lone()
    append(leader, 0, epoch=5)
    if code is None:
        end(leader, epoch=epoch, version=version)
        assert leader.log.producers.get(PID).epoch == epoch
    else:
        assert refusal(end, leader, epoch=epoch, version=version) is code
        assert leader.log.log_end_offset == 1


@pytest.mark.parametrize("version", [0, 2])
def test_a_repeated_marker_is_written_again(version):
    leader = lone()
    append(leader, 0)
    for _ in range(2):
        end(leader, epoch=1, version=version)
    assert leader.log.log_end_offset == 3


def test_a_marker_of_a_replaced_coordinator_is_refused():
    leader = lone()
    append(leader, 0)
    end(leader, coordinator_epoch=4)
    append(leader, 1)
    assert refusal(end, leader, coordinator_epoch=3) is ErrorCode.transaction_coordinator_fenced
    end(leader, coordinator_epoch=4)


def test_a_marker_of_an_unknown_producer_is_written():
    leader = lone()
    end(leader, epoch=9, version=2)
    assert read_header(leader.log.batches[0].data).is_control
    assert leader.log.producers.get(PID).epoch == 9


def test_a_marker_is_not_written_below_the_minimum_of_replicas():
    leader = leading([], state(isr=(ME,)), min_insync_replicas=2)
    assert refusal(end, leader) is ErrorCode.not_enough_replicas
    assert leader.log.log_end_offset == 0


# Batches of coordinators.


def test_a_coordinators_batch_needs_a_guard_and_leaves_no_sequence():
    leader = lone()
    records = batch(-1, records=3)
    assert refusal(leader.append_of_coordinator, records, OPEN, NOW_MS) is ErrorCode.invalid_txn_state
    guard = guard_of(leader, -1)
    assert leader.append_of_coordinator(records, guard, NOW_MS) == (0, 3, -1)
    known = leader.log.producers.get(PID)
    assert (known.last_sequence, known.last_offset) == (-1, 2)
    leader.append_of_coordinator(batch(-1), OPEN, NOW_MS)
    end(leader, epoch=1, version=2)
    assert refusal(leader.append_of_coordinator, batch(-1), OPEN, NOW_MS) is ErrorCode.invalid_producer_epoch


def test_a_coordinators_batch_that_is_too_large_is_refused():
    leader = lone(max_message_bytes=70)
    code = refusal(leader.append_of_coordinator, batch(-1, records=9), UNVERIFIED, NOW_MS)
    assert code is ErrorCode.message_too_large


STEPS = st.lists(st.sampled_from(["begin 0", "begin 1", "confirm", "marker", "append 0", "append 1"]), max_size=14)


@given(STEPS)
def test_no_batch_enters_the_log_unless_its_transaction_was_confirmed_after_the_last_marker(steps):
    """INV-TXN-VERIFIED, where the coordinator says yes to every question that was begun since the last marker."""
    leader = lone()
    guards = {0: None, 1: None}
    begun_in = {0: None, 1: None}
    epoch_of_markers, is_open = 0, False
    for step in steps:
        what, _, number = step.partition(" ")
        if what == "begin":
            guards[int(number)] = guard_of(leader, int(number))
            begun_in[int(number)] = epoch_of_markers
        elif what == "marker":
            end(leader)
            epoch_of_markers, is_open = epoch_of_markers + 1, False
        elif what == "append" and guards[int(number)] is not None:
            before = leader.log.log_end_offset
            try:
                append(leader, int(number), guard=guards[int(number)])
            except ApiError:
                assert leader.log.log_end_offset == before
            else:
                appended = leader.log.log_end_offset > before
                assert not appended or is_open or begun_in[int(number)] == epoch_of_markers
                is_open = is_open or appended
