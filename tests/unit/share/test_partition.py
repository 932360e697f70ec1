"""A share partition: each rule by an example; the numbers are those that Kafka 4.3.1 was measured with."""

from itertools import pairwise

import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.protocol.progress import whole
from esp.schemas.share_state_records import RecordState, StateBatch
from esp.share.acknowledgements import SLICE_BATCHES, AcknowledgementBatch
from esp.share.acquiring import AcquireMode, FetchedBatch
from esp.share.partition import SLICE_RUNS, SLICE_WORDS, PersistedState, SharePartition, ShareSettings
from esp.share.window import Window
from tests.unit.groups.line_counter import lines_of

LOCK_MS = 30_000
LOCK_US = LOCK_MS * 1_000
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def partition(start=0, batches=(), *, limit=5, locks=2_000, renew=True, letters=False):
    settings = ShareSettings(LOCK_MS, limit, locks, renew, letters)
    return SharePartition(PersistedState(7, start, tuple(batches)), settings)


def take(share, *fetched, member="m", most=500, now=0, mode=AcquireMode.BATCH_OPTIMIZED, batch_size=500):
    """Acquire from these ranges of a log, each a batch: what was got."""
    batches = [one if isinstance(one, FetchedBatch) else FetchedBatch(*one) for one in fetched]
    got = share.acquire(
        member, batches, share.find_fetch_offset(), now, records_max=most, batch_size=batch_size, mode=mode
    )
    return [tuple(records) for records in got.records]


def say(share, first, last, *types, member="m", now=0, renews=False):
    return say_all(share, [(first, last, types)], member=member, now=now, renews=renews)


def say_all(share, batches, *, member="m", now=0, renews=False):
    """Acknowledge in one go."""
    words = [AcknowledgementBatch(*batch) for batch in batches]
    return whole(share.acknowledge(member, words, now, allows_renew=renews))


def refusal(share, first, last, *types, **more):
    with pytest.raises(ApiError) as caught:
        say(share, first, last, *types, **more)
    return caught.value.code


def done(share, write):
    """Let a write succeed; its batches."""
    assert write is not None
    whole(share.on_written(write.token))
    return [tuple(batch) for batch in write.batches]


def states(share):
    return [(run.start_offset, run.end_offset, run.state, run.delivery_count) for run in share.runs]


# Acquiring.


def test_a_member_gets_whole_batches_and_the_next_one_what_follows():
    share = partition()
    assert take(share, (0, 10), (10, 25), (25, 40), most=11) == [(0, 25, 1)]
    assert share.find_fetch_offset() == 25
    assert take(share, (25, 40), member="n") == [(25, 40, 1)]
    assert share.acquired_count == 40


def test_record_limit_is_exact():
    share = partition()
    assert take(share, (0, 10), most=5, mode=AcquireMode.RECORD_LIMIT) == [(0, 5, 1)]
    assert take(share, (0, 10), most=5, mode=AcquireMode.RECORD_LIMIT) == [(5, 10, 1)]


def test_batches_are_joined_up_to_the_batch_size_at_their_borders():
    assert take(partition(), (0, 10), (10, 20), (20, 30), batch_size=15) == [(0, 20, 1), (20, 30, 1)]


def test_an_offset_that_was_not_asked_for_is_not_acquired():
    share = partition(start=14)
    assert take(share, (10, 16)) == [(14, 16, 1)]


def test_gaps_and_batches_that_are_not_for_delivery_are_passed():
    share = partition()
    assert take(share, (3, 5), FetchedBatch(5, 6, is_deliverable=False), (6, 8), (9, 10)) == [
        (3, 5, 1),
        (6, 8, 1),
        (9, 10, 1),
    ]
    assert share.start_offset == 3
    assert [run.state for run in share.runs] == [ACQUIRED, ARCHIVED, ACQUIRED, ARCHIVED, ACQUIRED]


def test_a_start_offset_that_moves_past_what_is_not_there_is_written():
    share = partition()
    got = share.acquire("m", [FetchedBatch(0, 4, is_deliverable=False)], 0, 0, records_max=1, batch_size=1)
    assert got.records == ()
    assert got.write is not None
    assert (got.write.start_offset, got.write.complete_count, got.write.batches) == (4, 0, ())


def test_a_start_offset_that_passes_what_is_not_there_later_is_written_then():
    share = partition()
    take(share, FetchedBatch(0, 2), FetchedBatch(2, 3, is_deliverable=False))
    write = say(share, 0, 1, 1)
    assert write.start_offset == 0
    untold = whole(share.on_written(write.token))
    assert (share.start_offset, untold.start_offset, untold.batches) == (3, 3, ())
    assert whole(share.on_written(untold.token)) is None


def test_the_window_spans_no_more_than_the_limit_and_a_batch():
    share = partition(locks=100)
    assert take(share, (0, 60), (60, 130), (130, 140)) == [(0, 130, 1)]
    assert share.find_fetch_offset() is None
    done(share, say(share, 1, 129, ACCEPT))
    assert share.find_fetch_offset() is None, "one record that nobody acknowledges holds the window"
    done(share, say(share, 0, 0, RELEASE))
    assert share.find_fetch_offset() == 0, "what was released is there at the limit too"
    take(share, (0, 60))
    done(share, say(share, 0, 0, ACCEPT))
    assert (share.start_offset, share.find_fetch_offset()) == (130, 130)


def test_in_record_limit_mode_the_window_ends_at_the_limit():
    share = partition(locks=100)
    assert take(share, (0, 130), mode=AcquireMode.RECORD_LIMIT) == [(0, 100, 1)]


# Acknowledging.


@pytest.mark.parametrize(
    ("type_", "written"), [(ACCEPT, ACKNOWLEDGED), (RELEASE, AVAILABLE), (REJECT, ARCHIVED), (GAP, ARCHIVED)]
)
def test_a_word_counts_when_it_is_written(type_, written):
    share = partition()
    take(share, (0, 5))
    write = say(share, 0, 4, type_)
    assert states(share) == [(0, 5, ACQUIRED, 1)]
    assert write.start_offset == 0
    assert write.complete_count == (0 if written is AVAILABLE else 5)
    assert done(share, write) == [(0, 5, written, 1)]
    assert states(share) == ([(0, 5, AVAILABLE, 1)] if written is AVAILABLE else [])


def test_each_offset_may_have_a_word_of_its_own():
    share = partition()
    take(share, (0, 6))
    write = say(share, 0, 5, ACCEPT, ACCEPT, RELEASE, REJECT, GAP, ACCEPT)
    assert done(share, write) == [
        (0, 2, ACKNOWLEDGED, 1),
        (2, 3, AVAILABLE, 1),
        (3, 5, ARCHIVED, 1),
        (5, 6, ACKNOWLEDGED, 1),
    ]
    assert (share.start_offset, share.find_fetch_offset()) == (2, 2)


def test_the_start_that_is_written_lags_by_one_write():
    share = partition()
    take(share, (0, 10))
    first = say(share, 0, 4, ACCEPT)
    assert (first.start_offset, first.complete_count) == (0, 5)
    done(share, first)
    second = say(share, 7, 9, ACCEPT)
    assert (second.start_offset, second.complete_count) == (5, 3)


def test_what_is_below_the_start_is_acknowledged_silently():
    share = partition()
    take(share, (0, 10))
    done(share, say(share, 0, 4, ACCEPT))
    assert say(share, 0, 4, ACCEPT) is None
    assert done(share, say(share, 3, 5, RELEASE, RELEASE, ACCEPT)) == [(5, 6, ACKNOWLEDGED, 1)]


def test_records_of_another_member_and_records_that_are_being_written_are_refused():
    share = partition()
    take(share, (0, 10))
    assert refusal(share, 0, 1, ACCEPT, member="n") is ErrorCode.invalid_record_state
    write = say(share, 0, 1, ACCEPT)
    assert refusal(share, 1, 2, RELEASE) is ErrorCode.invalid_record_state
    assert refusal(share, 1, 2, RENEW, renews=True) is ErrorCode.invalid_record_state
    done(share, write)
    done(share, say(share, 4, 5, RELEASE))
    assert refusal(share, 3, 4, ACCEPT) is ErrorCode.invalid_record_state
    assert [run.write for run in share.runs] == [0, 0, 0], "nothing of a request that is refused counts"
    assert refusal(share, 9, 10, ACCEPT) is ErrorCode.invalid_request


@pytest.mark.parametrize(
    "batches",
    [
        [(4, 3, [ACCEPT])],
        [(0, 3, [ACCEPT]), (2, 4, [ACCEPT])],
        [(0, 3, [ACCEPT]), (3, 4, [ACCEPT]), (4, 3, [ACCEPT])],
        [(5, 6, [ACCEPT]), (0, 1, [ACCEPT])],
        [(0, 3, [])],
        [(0, 3, [ACCEPT, ACCEPT])],
        [(0, 0, [5])],
        [(0, 0, [-1])],
        [(0, 0, [RENEW])],
        [(-1, 0, [ACCEPT])],
        [(0, 2**62, [ACCEPT])],
    ],
)
def test_malformed_acknowledgements_are_refused_and_nothing_of_them_counts(batches):
    share = partition()
    take(share, (0, 10))
    with pytest.raises(ApiError) as caught:
        say_all(share, batches)
    assert caught.value.code is ErrorCode.invalid_request
    assert not share.has_writes


def test_two_words_on_one_record_are_refused_unless_it_is_done_with():
    share = partition()
    take(share, (0, 10))
    for batches in ([(0, 3, [ACCEPT]), (3, 4, [REJECT])], [(0, 0, [ACCEPT]), (0, 0, [ACCEPT]), (5, 99, [ACCEPT])]):
        with pytest.raises(ApiError) as caught:
            say_all(share, batches)
        assert caught.value.code is ErrorCode.invalid_record_state
    done(share, say(share, 0, 3, ACCEPT))
    assert say_all(share, [(0, 1, [ACCEPT]), (1, 1, [ACCEPT])]) is None


def test_a_write_that_fails_leaves_the_records_with_their_member():
    share = partition()
    take(share, (0, 5))
    share.on_write_failed(say(share, 0, 4, ACCEPT).token, ErrorCode.coordinator_not_available)
    assert states(share) == [(0, 5, ACQUIRED, 1)]
    assert share.next_deadline_us == LOCK_US
    done(share, say(share, 0, 4, ACCEPT))
    assert share.start_offset == 5


@pytest.mark.parametrize("error", [ErrorCode.fenced_state_epoch, ErrorCode.fenced_leader_epoch])
def test_a_fenced_write_ends_the_share_partition(error):
    share = partition()
    take(share, (0, 5))
    share.on_write_failed(say(share, 0, 1, ACCEPT).token, error)
    assert share.is_fenced
    assert (share.find_fetch_offset(), share.next_deadline_us, share.on_time(LOCK_US)) == (None, None, None)
    assert refusal(share, 2, 3, ACCEPT) is ErrorCode.not_leader_or_follower
    assert share.release_member("m") is None


# Locks.


def test_a_lock_ends_at_once_and_is_written():
    share = partition()
    take(share, (0, 5))
    assert share.on_time(LOCK_US - 1) is None
    write = share.on_time(LOCK_US)
    assert states(share) == [(0, 5, AVAILABLE, 1)]
    assert share.next_deadline_us is None
    share.on_write_failed(write.token, ErrorCode.coordinator_not_available)
    assert states(share) == [(0, 5, AVAILABLE, 1)]
    assert take(share, (0, 5), now=LOCK_US) == [(0, 5, 2)]


def test_a_lock_that_ends_during_a_write_waits_for_it():
    share = partition()
    take(share, (0, 5))
    write = say(share, 0, 4, ACCEPT)
    assert share.on_time(LOCK_US) is None
    done(share, write)
    assert (share.start_offset, share.on_time(2 * LOCK_US)) == (5, None)


def test_a_lock_that_ended_during_a_write_that_failed_ends_then():
    share = partition()
    take(share, (0, 5))
    write = say(share, 0, 4, ACCEPT)
    share.on_time(LOCK_US)
    share.on_write_failed(write.token, ErrorCode.request_timed_out)
    assert share.next_deadline_us == LOCK_US
    assert done(share, share.on_time(LOCK_US + 1)) == [(0, 5, AVAILABLE, 1)]


def test_renewing_begins_the_lock_again_and_writes_nothing():
    share = partition()
    take(share, (0, 5))
    assert say(share, 0, 2, RENEW, now=LOCK_US // 2, renews=True) is None
    done(share, share.on_time(LOCK_US))
    assert states(share) == [(0, 3, ACQUIRED, 1), (3, 5, AVAILABLE, 1)]
    assert share.next_deadline_us == LOCK_US + LOCK_US // 2


def test_renewing_may_be_switched_off():
    share = partition(renew=False)
    take(share, (0, 5))
    assert refusal(share, 0, 0, RENEW, renews=True) is ErrorCode.invalid_record_state


def test_the_end_of_a_session_releases_all_that_its_member_holds_past_records_of_others():
    share = partition()
    take(share, (0, 3))
    take(share, (3, 5), member="n")
    take(share, (5, 8))
    pending = say(share, 5, 5, ACCEPT)
    assert done(share, share.release_member("m")) == [(0, 3, AVAILABLE, 1), (6, 8, AVAILABLE, 1)]
    done(share, pending)
    assert states(share) == [(0, 3, AVAILABLE, 1), (3, 5, ACQUIRED, 1), (5, 6, ACKNOWLEDGED, 1), (6, 8, AVAILABLE, 1)]
    assert share.release_member("m") is None


# Attempts.


def test_the_last_attempt_is_the_last():
    share = partition(limit=2)
    for count in (1, 2):
        assert take(share, (0, 1)) == [(0, 1, count)]
        write = say(share, 0, 0, RELEASE)
        assert done(share, write) == [(0, 1, AVAILABLE if count == 1 else ARCHIVED, count)]
    assert (share.start_offset, share.end_offset) == (1, 1)


def test_records_that_failed_before_come_alone_at_their_last_attempt():
    share = partition(limit=3)
    sizes = []
    for _ in range(5):
        got = take(share, (0, 13))
        sizes.append(sum(end - start for start, end, _count in got))
        for start, end, _count in got:
            done(share, say(share, start, end - 1, RELEASE))
    assert sizes == [13, 13, 1, 1, 1]
    assert (share.start_offset, share.find_fetch_offset()) == (3, 3)


def test_records_that_failed_come_in_smaller_and_smaller_parts():
    sizes = {}
    for count in range(1, 10):
        share = partition(batches=[StateBatch(0, 64, AVAILABLE, count)], limit=10)
        [(start, end, told)] = take(share, (0, 64), (64, 70), most=500)[:1]
        assert told == count + 1
        sizes[count] = end - start
    assert sizes == {1: 64, 2: 64, 3: 64, 4: 64, 5: 32, 6: 16, 7: 8, 8: 4, 9: 1}


def test_small_batches_that_failed_come_in_parts_of_what_a_member_acknowledges_at_once():
    share, log = partition(limit=10), [(offset, offset + 1) for offset in range(16)]
    for _ in range(5):
        assert sum(end - start for start, end, _count in take(share, *log, batch_size=8)) == 16
        done(share, say(share, 0, 15, RELEASE))
    assert take(share, *log, batch_size=8) == [(0, 4, 6)], "half of eight, though each batch has one record"
    done(share, say_all(share, [(0, 3, (RELEASE, RELEASE, ACCEPT, RELEASE))]))
    assert take(share, *log, batch_size=8) == [(0, 2, 7)], "a quarter"
    assert take(share, *log[3:], batch_size=8, member="n") == [(3, 4, 7)], "those that failed as often"
    assert take(share, *log[4:], batch_size=8, member="o") == [(4, 8, 6)], "those that are left of the eight"


def test_records_of_a_large_batch_that_failed_come_in_parts_of_what_a_member_may_have_at_once():
    share, exact = partition(limit=10), {"most": 8, "mode": AcquireMode.RECORD_LIMIT}
    for _ in range(5):
        assert take(share, (0, 1_000), **exact)[-1][:2] == (0, 8)
        done(share, say(share, 0, 7, RELEASE))
    assert take(share, (0, 1_000), **exact) == [(0, 4, 6)], "half of eight, though the batch has a thousand records"
    done(share, say(share, 0, 3, RELEASE))
    assert take(share, (0, 1_000), **exact) == [(0, 2, 7)], "a quarter"
    share = partition(batches=[StateBatch(0, 8, AVAILABLE, 5)], limit=10)
    assert take(share, (0, 1_000)) == [(0, 4, 6)], "no more than half of what was delivered"


def test_records_that_failed_are_not_delivered_behind_others():
    share = partition(batches=[StateBatch(0, 4, AVAILABLE, 1), StateBatch(4, 8, AVAILABLE, 4)], limit=5)
    assert take(share, (0, 8)) == [(0, 4, 2)]
    assert take(share, (0, 8)) == [(4, 5, 5)]


def test_a_limit_that_was_lowered_archives_what_is_beyond_it():
    share = partition(batches=[StateBatch(0, 4, AVAILABLE, 4)], limit=3)
    assert take(share, (0, 6)) == [(4, 6, 1)]
    assert share.start_offset == 4


# The log, and another leader.


def test_a_log_start_that_moves_takes_records_along_whoever_has_them():
    share = partition()
    take(share, (0, 10))
    pending = say(share, 2, 6, RELEASE)
    write = share.on_log_start(5)
    assert (write.start_offset, write.batches) == (5, ())
    done(share, write)
    assert say(share, 0, 1, ACCEPT) is None
    whole(share.on_written(pending.token))
    assert states(share) == [(5, 7, AVAILABLE, 1), (7, 10, ACQUIRED, 1)]
    assert share.on_log_start(5) is None
    share.on_log_start(50)
    assert (share.start_offset, share.end_offset, share.acquired_count, share.find_fetch_offset()) == (50, 50, 0, 50)


def test_a_new_leader_finds_gaps_between_what_was_written():
    share = partition(
        start=0,
        batches=[StateBatch(0, 2, ACKNOWLEDGED, 1), StateBatch(5, 8, ACKNOWLEDGED, 1), StateBatch(9, 10, ARCHIVED, 5)],
    )
    assert (share.start_offset, share.end_offset, share.find_fetch_offset()) == (2, 10, 2)
    assert take(share, (0, 4), (4, 12)) == [(2, 5, 1), (8, 9, 1), (10, 12, 1)]
    assert share.state_epoch == 7


def counted(monkeypatch):
    """The calls that change the window from now on."""
    calls = []
    for name in ("change", "replace"):
        real = getattr(Window, name)

        def call(self, *args, real=real):
            calls.append(args)
            return real(self, *args)

        monkeypatch.setattr(Window, name, call)
    return calls


def test_small_batches_and_one_word_for_each_record_cost_no_more_than_large_ones(monkeypatch):
    part = partition()
    calls = counted(monkeypatch)
    fetched = [FetchedBatch(offset, offset + 1) for offset in range(100)]
    got = part.acquire("m", fetched, 0, 0, records_max=100, batch_size=10)
    assert [(piece.start_offset, piece.end_offset) for piece in got.records] == [(n, n + 10) for n in range(0, 100, 10)]
    assert len(calls) == 1
    write = say_all(part, [(offset, offset, [1]) for offset in range(100)])
    whole(part.on_written(write.token))
    assert (part.start_offset, len(calls)) == (100, 3)


def test_words_of_many_kinds_change_the_window_together(monkeypatch):
    part = partition()
    part.acquire("m", [FetchedBatch(0, 100)], 0, 0, records_max=100, batch_size=100)
    calls = counted(monkeypatch)
    write = say_all(part, [(offset, offset, [1 + offset % 3]) for offset in range(100) if offset not in (7, 50)])
    whole(part.on_written(write.token))
    assert len(calls) == 3 + 98 // SLICE_WORDS + -(-100 // SLICE_RUNS), (
        "three stretches, which slices cut again, and slices of all of them when they are written"
    )
    assert part.start_offset == 1
    assert part.acquired_count == 2


# Words in slices.


def acquired(count=4_000, *, locks=4_000):
    """A member that has this many records, and a word on each that differs from its neighbours'."""
    share = partition(locks=locks)
    assert take(share, (0, count), most=count) == [(0, count, 1)]
    return share, [AcknowledgementBatch(offset, offset, [(ACCEPT, RELEASE)[offset % 2]]) for offset in range(count)]


def begun(share, words, *, slices=2, member="m", now=0):
    """A request of which some slices are done."""
    work = share.acknowledge(member, words, now, allows_renew=True)
    for _ in range(slices):
        next(work)
    return work


def test_words_that_differ_are_taken_in_slices():
    share, words = acquired()
    work = share.acknowledge("m", words, 0)
    looked = len(words) // SLICE_BATCHES
    assert [next(work) for _ in range(looked)] == [None] * looked
    for number in range(1, len(words) // SLICE_WORDS + 1):
        assert next(work) is None
        assert sum(run.write != 0 for run in share.runs) == number * SLICE_WORDS, "a slice's words at a time"
    assert [tuple(batch) for batch in rest_of(work).batches[:2]] == [(0, 1, ACKNOWLEDGED, 1), (1, 2, AVAILABLE, 1)]


@pytest.mark.parametrize("run", [1, 3, 100, 127, 5_000])
def test_words_that_are_alike_are_joined_in_slices_too(run):
    """5,000 batches, of which so many that follow one another say the same: they are one word, and no slice has many of them."""
    share = partition(locks=5_000)
    assert take(share, (0, 5_000), most=5_000) == [(0, 5_000, 1)]
    said = []

    class Told(list):
        def __getitem__(self, place):
            said.append(place)
            return super().__getitem__(place)

        def __iter__(self):
            return (self[place] for place in range(len(self)))

    types = [(ACCEPT, RELEASE, REJECT)[offset // run % 3] for offset in range(5_000)]
    words = Told(AcknowledgementBatch(offset, offset, [type_]) for offset, type_ in enumerate(types))
    work = share.acknowledge("m", words, 0)
    while True:
        said.clear()
        try:
            next(work)
        except StopIteration as end:
            write = end.value
            break
        assert len(said) <= 2 * SLICE_BATCHES + 20
    assert len(said) <= 2 * SLICE_BATCHES + 20
    batches = done(share, write)
    assert [number for begin, end, *_ in batches for number in range(begin, end)] == list(range(5_000))
    wanted = {ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED}
    assert all(wanted[types[number]] is batch[2] for batch in batches for number in range(*batch[:2]))
    assert len(batches) == -(-5_000 // run)


def rest_of(work):
    """Do what is left of a request."""
    return whole(work)


def test_words_below_the_start_cost_nothing_and_types_of_one_batch_are_looked_at_in_slices():
    share = partition(start=100_000)
    words = [AcknowledgementBatch(offset, offset, [ACCEPT]) for offset in range(20_000)]
    assert sum(1 for _ in share.acknowledge("m", words, 0)) == 20_000 // SLICE_BATCHES
    long = [AcknowledgementBatch(0, 49_999, bytes([ACCEPT, RELEASE] * 25_000))]
    assert sum(1 for _ in share.acknowledge("m", long, 0)) == 24
    assert not share.has_writes


def test_words_that_are_refused_late_leave_no_trace():
    share, words = acquired()
    say(share, 3_999, 3_999, ACCEPT)
    before, deadline = share.runs, share.next_deadline_us
    with pytest.raises(ApiError) as caught:
        whole(share.acknowledge("m", words, 0))
    assert caught.value.code is ErrorCode.invalid_record_state
    assert (share.runs, share.next_deadline_us) == (before, deadline)


def test_words_whose_request_goes_no_further_leave_no_trace():
    share, words = acquired()
    before = share.runs
    work = begun(share, words, slices=60)
    assert share.runs != before
    work.close()
    assert share.runs == before
    assert not share.has_writes


def test_between_two_slices_no_other_word_is_taken_on_the_same_records_and_no_lock_ends():
    share, words = acquired()
    work = begun(share, words, slices=60)
    assert refusal(share, 0, 0, ACCEPT) is ErrorCode.invalid_record_state
    assert refusal(share, 3_999, 3_999, ACCEPT, member="n") is ErrorCode.invalid_record_state
    ended = share.on_time(LOCK_US)
    assert ended.batches[0].start_offset > 0, "what is looked at already waits for its write"
    with pytest.raises(ApiError):
        whole(work)
    share.on_time(LOCK_US)
    assert share.acquired_count == 0


def test_a_session_that_ends_between_two_slices_leaves_what_was_said_to_its_write():
    share, words = acquired(64)
    work = begun(share, words, slices=1)
    released = share.release_member("m")
    assert [tuple(batch)[:2] for batch in released.batches] == [(32, 64)]
    with pytest.raises(ApiError):
        whole(work)
    assert [(run.start_offset, run.end_offset) for run in share.runs if run.write == 0] == [(0, 32)]
    assert share.next_deadline_us == 0, "the member has gone: what it loses by the refusal is for others at once"
    assert done(share, share.on_time(1)) == [(0, 32, AVAILABLE, 1)]


def test_a_log_start_that_moves_between_two_slices_takes_records_along():
    share, words = acquired(64)
    work = begun(share, words, slices=1)
    share.on_log_start(48)
    write = whole(work)
    assert write.batches[0].start_offset == 48
    whole(share.on_written(write.token))
    assert [run for run in states(share) if run[2] is ACQUIRED] == []


def test_a_share_partition_that_ends_between_two_slices_takes_no_more():
    share, words = acquired(64)
    write = share.on_log_start(1)
    work = begun(share, words, slices=1)
    share.on_write_failed(write.token, ErrorCode.fenced_leader_epoch)
    with pytest.raises(ApiError) as caught:
        whole(work)
    assert caught.value.code is ErrorCode.not_leader_or_follower


def test_renewals_and_other_words_of_one_request_count_together():
    share, _ = acquired(200)
    words = [AcknowledgementBatch(offset, offset, [(ACCEPT, RENEW)[offset % 2]]) for offset in range(200)]
    write = whole(share.acknowledge("m", words, 5_000, allows_renew=True))
    assert len(write.batches) == 100
    renewed = [run for run in share.runs if run.write == 0]
    assert len(renewed) == 100
    assert {run.lock_us for run in renewed} == {LOCK_US + 5_000}
    whole(share.on_written(write.token))
    assert (share.start_offset, share.acquired_count) == (1, 100)


def test_renewals_that_are_refused_late_do_not_count():
    share, _ = acquired(200)
    say(share, 199, 199, ACCEPT)
    words = [AcknowledgementBatch(offset, offset, [(ACCEPT, RENEW)[offset % 2]]) for offset in range(200)]
    before = share.runs
    with pytest.raises(ApiError):
        whole(share.acknowledge("m", words, 5_000, allows_renew=True))
    assert share.runs == before


def test_renewals_alone_write_nothing():
    share, _ = acquired(64)
    assert whole(share.acknowledge("m", [AcknowledgementBatch(0, 63, [RENEW])], 5_000, allows_renew=True)) is None
    assert not share.has_writes
    assert {run.lock_us for run in share.runs} == {LOCK_US + 5_000}


# Writes that have succeeded, in slices.


def being_settled(count=4_000, *, slices=1):
    """A share partition whose write of this many runs has succeeded, of which some slices are settled, and the rest of the work."""
    share, words = acquired(count)
    work = share.on_written(whole(share.acknowledge("m", words, 0)).token)
    for _ in range(slices):
        next(work)
    return share, work


def waiting(share):
    """The number of runs that wait for a write."""
    return sum(run.write != 0 for run in share.runs)


def test_runs_are_settled_in_slices():
    share, work = being_settled(slices=0)
    left = [waiting(share), *(waiting(share) for _ in work)]
    assert {before - after for before, after in pairwise(left)} == {SLICE_RUNS}
    assert left[-1] <= SLICE_RUNS
    assert (waiting(share), share.has_writes, share.acquired_count, share.start_offset) == (0, False, 0, 1)
    assert [run[2] for run in states(share)[:3]] == [AVAILABLE, ACKNOWLEDGED, AVAILABLE]


def test_a_write_of_few_runs_is_settled_at_once():
    share, _ = acquired(64)
    assert list(share.on_written(say(share, 0, 63, ACCEPT).token)) == []
    assert share.start_offset == 64


def test_what_is_settled_is_given_to_others_before_the_rest_is():
    share, work = being_settled()
    assert take(share, (0, 4_000), member="n", most=2, mode=AcquireMode.RECORD_LIMIT) == [(1, 2, 2), (3, 4, 2)]
    assert refusal(share, 3_999, 3_999, ACCEPT) is ErrorCode.invalid_record_state, "the rest waits for its write"
    assert whole(work) is None
    assert [(run.start_offset, run.member_id) for run in share.runs if run.state is ACQUIRED] == [(1, "n"), (3, "n")]
    assert done(share, say(share, 1, 1, ACCEPT, member="n")) == [(1, 2, ACKNOWLEDGED, 2)]
    assert share.start_offset == 3


def test_locks_and_sessions_that_end_between_two_slices_leave_the_rest_to_its_write():
    share, work = being_settled()
    assert share.on_time(LOCK_US) is None
    assert share.release_member("m") is None
    whole(work)
    assert (share.acquired_count, waiting(share)) == (0, 0)


@pytest.mark.parametrize("log_start", [20, 100, 3_999, 4_000, 5_000])
def test_a_log_start_that_moves_between_two_slices_of_settling_takes_records_along(log_start):
    share, work = being_settled()
    share.on_log_start(log_start)
    whole(work)
    assert (share.acquired_count, waiting(share)) == (0, 0)
    assert share.start_offset == log_start + (log_start in (20, 100))


def test_two_writes_are_settled_side_by_side():
    share, words = acquired(400)
    first = share.on_written(whole(share.acknowledge("m", words[:200], 0)).token)
    second = share.on_written(whole(share.acknowledge("m", words[200:], 0)).token)
    next(first)
    assert whole(second) is None
    assert whole(first) is None
    assert (share.acquired_count, waiting(share), share.has_writes) == (0, 0, False)


@pytest.mark.parametrize("end", [lambda share: share.on_time(2 * LOCK_US), lambda share: share.release_member("m")])
def test_thousands_of_locks_that_end_together_cost_some_lines_each(end):
    share = partition()
    for offset in range(2_000):  # each lock ends at a time of its own
        take(share, (offset, offset + 1), now=offset, most=1, batch_size=1)
    write, lines = lines_of(lambda: end(share))
    assert [tuple(batch) for batch in write.batches] == [(0, 2_000, AVAILABLE, 1)]
    assert lines < 60 * 2_000, "more than some milliseconds of one turn"
