"""PROD-11 and PROD-12: batches behind one that was refused for now, alone and as a producer with several requests in flight meets it."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.replication.refused_batches import (
    FOR_NOW,
    PARTITIONS_MAX,
    REFUSED_MAX,
    SETTLING_US,
    RefusedBatches,
    while_settling,
)
from esp.storage.producer_state import ProducerStates

LAST = 2**31 - 1
COUNT = 2
"""Records in a batch, and so from one batch's first sequence to the next one's."""
NOT_LEADER = ErrorCode.not_leader_or_follower
PRODUCER_ID_OFFSET = 43
"""In a batch (format 2)."""


def batch(sequence: int, *, producer: int = 7, epoch: int = 0) -> memoryview:
    built = build_batch(
        [NewRecord(b"x")] * COUNT,
        timestamp_ms=0,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
    )
    return memoryview(built)


def known(sequence: int, *, producer: int = 7, epoch: int = 0) -> ProducerStates:
    """What a log knows whose last batch was the one from ``sequence`` on."""
    states = ProducerStates()
    states.update(read_header(batch(sequence, producer=producer, epoch=epoch)))
    return states


def refused(sequence: int, code: ErrorCode = NOT_LEADER) -> RefusedBatches:
    batches = RefusedBatches()
    batches.refuse("t-0", batch(sequence), code)
    return batches


def passes(batches: RefusedBatches, records: memoryview | None, states: ProducerStates, partition: str = "t-0") -> bool:
    try:
        batches.check(partition, records, states)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("code", sorted(FOR_NOW))
def test_the_next_batch_is_refused_with_the_same_code_until_the_first_is_there(code: ErrorCode) -> None:
    batches = refused(4, code)
    with pytest.raises(ApiError, match="at sequence 4") as caught:
        batches.check("t-0", batch(6), known(2))
    assert caught.value.code is code
    assert passes(batches, batch(4), known(2)), "the one that is missing"
    assert passes(batches, batch(2), known(2)), "a repetition of what is there"
    assert passes(batches, batch(6), known(4))
    assert passes(batches, batch(6), known(2)), "nothing is remembered once it is there"


def test_a_producer_that_the_log_does_not_know_does_not_begin_in_the_middle() -> None:
    batches = refused(0)
    assert not passes(batches, batch(2), ProducerStates())
    assert passes(batches, batch(0), ProducerStates())


def test_what_was_refused_here_and_taken_elsewhere_is_not_missing() -> None:
    assert passes(refused(4), batch(9000), known(8998))


def test_sequences_begin_again_after_the_highest() -> None:
    batches = refused(LAST - 1)
    assert not passes(batches, batch(0), known(LAST - 3))
    assert not passes(batches, batch(2), known(LAST - 3))
    assert passes(batches, batch(LAST - 1), known(LAST - 3))
    assert passes(batches, batch(0), known(LAST - 1))


@pytest.mark.parametrize(
    "other",
    [batch(6, producer=8), batch(6, epoch=1), batch(6, producer=-1, epoch=-1), None, memoryview(b"no batch")],
    ids=["producer", "epoch", "none", "null", "short"],
)
def test_what_others_send_is_not_concerned(other: memoryview | None) -> None:
    batches = refused(4)
    assert passes(batches, other, known(2))
    assert passes(batches, batch(6), known(2), "t-1")
    assert not passes(batches, batch(6), known(2))


@pytest.mark.parametrize("code", [ErrorCode.message_too_large, ErrorCode.out_of_order_sequence_number])
def test_who_is_refused_for_good_begins_anew(code: ErrorCode) -> None:
    assert passes(refused(4, code), batch(6), known(2))
    batches = refused(4)
    batches.refuse("t-0", batch(4), code)
    assert passes(batches, batch(6), known(2))


@pytest.mark.parametrize("records", [None, memoryview(bytes(10)), memoryview(bytes(200)), batch(4, producer=-1)])
def test_what_is_no_idempotent_batch_is_not_remembered(records: memoryview | None) -> None:
    batches = RefusedBatches()
    batches.refuse("t-0", records, NOT_LEADER)
    assert passes(batches, batch(6), known(2))


def spoil(records: memoryview) -> memoryview:
    """The batch with another producer id, and the checksum that it had."""
    spoilt = bytearray(records)
    spoilt[PRODUCER_ID_OFFSET] ^= 1
    return memoryview(spoilt)


def corrupt(code: ErrorCode = ErrorCode.corrupt_message) -> RefusedBatches:
    batches = RefusedBatches()
    batches.refuse("t-0", spoil(batch(4)), code)
    return batches


@pytest.mark.parametrize("code", [ErrorCode.corrupt_message, NOT_LEADER])
@pytest.mark.parametrize("states", [known(2), ProducerStates()], ids=["known", "new"])
def test_a_corrupt_batch_is_waited_for_although_its_fields_are_not_to_be_believed(
    states: ProducerStates, code: ErrorCode
) -> None:
    due = states.next_sequence(7, 0)
    batches = corrupt(code)
    with pytest.raises(ApiError, match=f"at sequence {due} was refused") as caught:
        batches.check("t-0", batch(due + COUNT), states)
    assert caught.value.code is NOT_LEADER, "it is sound itself"
    batches.refuse("t-0", batch(due + COUNT), NOT_LEADER)
    assert not passes(batches, batch(due + 2 * COUNT), states)
    assert passes(batches, batch(due), states), "the one that is missing"
    assert passes(corrupt(), batch(due), states)


def test_nothing_is_waited_for_once_a_batch_behind_a_corrupt_one_follows() -> None:
    batches = corrupt()
    assert passes(batches, batch(8, producer=-1), known(2)), "not idempotent"
    assert batches.by_partition
    assert passes(batches, batch(4), known(2))
    assert not batches.by_partition


def test_a_corrupt_batch_of_a_forgotten_producer_is_taken_with_the_second_repetition() -> None:
    batches = corrupt()
    assert not passes(batches, batch(100), ProducerStates())
    batches.refuse("t-0", batch(100), NOT_LEADER)
    assert passes(batches, batch(100), ProducerStates())


def test_one_that_never_comes_again_is_forgotten() -> None:
    batches = refused(4)
    refusals = 0
    while not passes(batches, batch(6), known(2)):
        batches.refuse("t-0", batch(6), NOT_LEADER)
        refusals += 1
    assert refusals == REFUSED_MAX


def test_the_oldest_partition_is_forgotten_first() -> None:
    batches = RefusedBatches()
    for number in range(PARTITIONS_MAX + 1):
        batches.refuse(f"t-{number}", batch(4), NOT_LEADER)
    assert [passes(batches, batch(6), known(2), f"t-{number}") for number in range(3)] == [True, False, False]
    assert not passes(batches, batch(6), known(2), f"t-{PARTITIONS_MAX}")


class Conversation:
    """One producer, its leader and what is on the way between them, in order: up to five requests that are not answered."""

    def __init__(self, batches: int) -> None:
        self.waiting = list(range(0, batches * COUNT, COUNT))
        self.sent: deque[int] = deque()
        self.answers: deque[tuple[int, bool]] = deque()
        self.leads = False
        self.is_noisy = False
        """The next batch arrives with a wrong checksum, and as one of another producer."""
        self.log: list[int] = []
        self.codes: set[ErrorCode] = set()
        """What the producer was refused with."""
        self._producers = ProducerStates()
        self._refused = RefusedBatches()

    def send(self) -> None:
        if self.waiting and len(self.sent) + len(self.answers) < REFUSED_MAX:
            self.sent.append(self.waiting.pop(0))

    def take(self) -> None:
        if not self.sent:
            return
        sequence = self.sent.popleft()
        records = spoil(batch(sequence)) if self.is_noisy else batch(sequence)
        try:
            if not self.leads:
                raise ApiError(NOT_LEADER)
            self._refused.check("t-0", records, self._producers)
            if self.is_noisy:
                raise ApiError(ErrorCode.corrupt_message)
            header = read_header(records)
            assert self._producers.check(header) is None
            self._producers.update(header)
            self.log.append(sequence)
        except ApiError as error:
            self._refused.refuse("t-0", records, error.code)
            self.codes.add(error.code)
            self.answers.append((sequence, False))
        else:
            self.answers.append((sequence, True))
        finally:
            self.is_noisy = False

    def hear(self) -> None:
        if self.answers:
            sequence, is_taken = self.answers.popleft()
            if not is_taken:
                self.waiting = sorted([*self.waiting, sequence])

    def change_leader(self) -> None:
        self.leads = not self.leads

    def spoil(self) -> None:
        self.is_noisy = True


STEPS = (Conversation.send, Conversation.take, Conversation.hear, Conversation.change_leader, Conversation.spoil)


@given(st.integers(1, 12), st.lists(st.sampled_from(STEPS), max_size=60))
def test_nothing_overtakes_anything_whenever_the_leader_changes_or_bits_flip(batches, steps) -> None:
    conversation = Conversation(batches)
    for step in steps:
        step(conversation)
    conversation.leads, conversation.is_noisy = True, False
    for _ in range(20 * batches):
        for step in STEPS[:3]:
            step(conversation)
    assert conversation.codes <= {NOT_LEADER, ErrorCode.corrupt_message}, "no client is told that it lost something"
    assert conversation.log == list(range(0, batches * COUNT, COUNT))


@pytest.mark.parametrize(("led_us", "is_final"), [(0, False), (SETTLING_US - 1, False), (SETTLING_US, True)])
def test_a_gap_is_no_loss_until_a_leader_that_took_over_has_settled(led_us, is_final) -> None:
    gap = ApiError(ErrorCode.out_of_order_sequence_number, "expected is 4")
    told = while_settling(gap, led_us)
    assert told.code is (gap.code if is_final else NOT_LEADER)
    assert "expected is 4" in str(told)
    other = ApiError(ErrorCode.invalid_producer_epoch)
    assert while_settling(other, led_us) is other
