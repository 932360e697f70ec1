"""What a follower takes over from its leader, and when it truncates."""

import re

import pytest

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.replication.partition_follower import (
    CommittedDataLossError,
    FetchAnswer,
    FetchPosition,
    MisplacedBatchError,
    Next,
    append_fetched,
)
from tests.unit.replication.logs import ME, following, stamped, state


def epochs_of(follower) -> list[int]:
    return [batch.header.leader_epoch for batch in follower.log.batches]


def answered(*batches, high_watermark=0, log_start_offset=0) -> FetchAnswer:
    return FetchAnswer(0, high_watermark, log_start_offset, b"".join(batches))


def diverging(epoch: int, end_offset: int, **fields) -> FetchAnswer:
    return FetchAnswer(0, diverging_epoch=epoch, diverging_end_offset=end_offset, **fields)


def test_it_fetches_from_its_own_end_with_the_epoch_of_its_last_record():
    assert following([1, 1, 3]).position == FetchPosition(5, 3, 3, 0)
    assert following([]).position == FetchPosition(5, 0, -1, 0)


def test_an_epoch_that_it_began_to_lead_without_a_record_is_forgotten():
    follower = following([1, 1])
    follower.log.begin_epoch(4)
    follower = type(follower)(follower.log, state(leader=2), ME, high_watermark_is_firm=False)
    assert follower.log.leader_epochs.entries() == [(1, 0)]
    assert follower.on_answer(follower.position, answered(stamped(2, 3)), 0) is Next.FETCH
    assert epochs_of(follower) == [1, 1, 3]


def test_records_are_appended_as_they_are_and_the_high_watermark_ends_at_the_log():
    follower = following([1])
    batches = [stamped(1, 1), stamped(2, 4)]
    assert follower.on_answer(follower.position, answered(*batches, high_watermark=9), 0) is Next.FETCH
    assert [kept.data for kept in follower.log.batches[1:]] == [bytes(batch) for batch in batches]
    assert follower.log.high_watermark == 3
    assert follower.log.leader_epochs.entries() == [(1, 0), (4, 2)]


def test_an_empty_answer_leaves_the_last_fetched_epoch_known():
    follower = following([1, 3])
    follower.on_answer(follower.position, answered(high_watermark=1), 0)
    assert follower.position.last_fetched_epoch == 3, "KAFKA-15510"


def test_the_high_watermark_never_falls_by_an_answer():
    follower = following([1, 1])
    follower.on_answer(follower.position, answered(high_watermark=2), 0)
    follower.on_answer(follower.position, answered(high_watermark=1), 0)
    assert follower.log.high_watermark == 2


def test_the_log_start_follows_the_leaders_but_never_beyond_the_high_watermark():
    follower = following([1, 1, 1])
    follower.on_answer(follower.position, answered(high_watermark=2, log_start_offset=3), 0)
    assert follower.log.log_start_offset == 2


@pytest.mark.parametrize("changed", [{"leader_epoch": 4}, {"fetch_offset": 1}, {"last_fetched_epoch": 2}])
@pytest.mark.parametrize("answer", [answered(stamped(2, 1), high_watermark=2), diverging(1, 0), FetchAnswer(1)])
def test_an_answer_to_another_question_is_dropped(changed, answer):
    follower = following([1, 1])
    asked = follower.position._replace(**changed)
    assert follower.on_answer(asked, answer, 0) is Next.IGNORE
    assert follower.on_leader_range(asked, 5, 0) is Next.IGNORE
    assert (epochs_of(follower), follower.log.high_watermark) == ([1, 1], 0)


def broken(batch: memoryview) -> memoryview:
    batch[-1] ^= 1
    return batch


@pytest.mark.parametrize(
    "bad",
    [
        broken(stamped(2, 1)),
        stamped(0, 1),
        stamped(2, 6),
        stamped(2, 0),
        bytes(8) + b"\x00\x00\x00\x01" + bytes(60),
    ],
    ids=["checksum", "offset below the end", "later epoch than the leader's", "earlier epoch", "length"],
)
def test_a_bad_batch_is_dropped_with_all_that_follows_and_the_rest_is_kept(bad):
    follower = following([1])
    answer = answered(stamped(1, 1), bad, stamped(3, 1), high_watermark=3)
    assert follower.on_answer(follower.position, answer, 0) is Next.BACK_OFF
    assert epochs_of(follower) == [1, 1]
    assert follower.log.high_watermark == 2


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (stamped(0, 1), "it begins at offset 0, and the log ends at 2"),
        (stamped(2, 6), "its leader epoch is 6, the batch before it has 1, and its leader has 5"),
        (stamped(2, 0), "its leader epoch is 0, the batch before it has 1, and its leader has 5"),
    ],
    ids=["offset below the end", "later epoch than the leader's", "earlier epoch"],
)
def test_a_sound_batch_that_cannot_follow_is_named_as_that_and_no_disk_is_blamed(batch, reason, caplog):
    follower = following([1, 1])
    with pytest.raises(MisplacedBatchError, match=f"^{re.escape(reason)}$"):
        append_fetched(follower.log, batch, 5, 0)
    assert follower.on_answer(follower.position, answered(batch), 0) is Next.BACK_OFF
    assert caplog.messages == [f"A batch from the leader of epoch 5 cannot follow the log: {reason}"]
    assert not re.search("disk|device|corrupt|rot", caplog.text)


def test_a_batch_with_another_checksum_is_not_one_that_is_misplaced(caplog):
    follower = following([1])
    with pytest.raises(CorruptionError) as error:
        append_fetched(follower.log, broken(stamped(1, 1)), 5, 0)
    assert not isinstance(error.value, MisplacedBatchError)
    assert follower.on_answer(follower.position, answered(broken(stamped(1, 1))), 0) is Next.BACK_OFF
    assert caplog.messages[0].startswith("A batch from the leader of epoch 5 is dropped: ")


def test_a_batch_that_is_cut_off_is_fetched_again():
    follower = following([1])
    answer = answered(stamped(1, 1), bytes(stamped(2, 1))[:-1])
    assert follower.on_answer(follower.position, answer, 0) is Next.FETCH
    assert follower.log.log_end_offset == 2


@pytest.mark.parametrize(
    ("epochs", "answer", "kept"),
    [
        ([1, 1, 3, 3], diverging(3, 3), [1, 1, 3]),
        ([1, 1, 3, 3], diverging(1, 3), [1, 1]),
        ([1, 1, 1, 3], diverging(1, 2), [1, 1]),
        ([1, 1, 3, 4], diverging(2, 4), [1, 1]),
        ([3, 3], diverging(2, 1), []),
    ],
    ids=["same epoch", "own end is less", "leader's end is less", "own epoch before it", "no own epoch up to it"],
)
def test_it_truncates_by_epochs_and_not_by_its_high_watermark(epochs, answer, kept):
    follower = following(epochs)
    assert follower.on_answer(follower.position, answer._replace(high_watermark=99), 0) is Next.FETCH
    assert epochs_of(follower) == kept
    assert follower.log.high_watermark == 0, "KAFKA-14704"


def test_a_log_that_has_rotted_where_it_is_to_be_cut_waits_for_being_set_aside(monkeypatch):
    follower = following([1, 1, 3])

    def refuse(_offset: int) -> None:
        raise CorruptionError("a batch that does not match its checksum")

    monkeypatch.setattr(follower.log, "truncate_to", refuse)
    assert follower.on_answer(follower.position, diverging(1, 2), 0) is Next.BACK_OFF
    assert follower.on_leader_range(follower.position, 0, 2) is Next.BACK_OFF
    assert epochs_of(follower) == [1, 1, 3]


def test_committed_records_are_not_dropped_without_an_unclean_election():
    follower = following([1, 1, 3])
    follower.on_answer(follower.position, answered(high_watermark=3), 0)
    with pytest.raises(CommittedDataLossError):
        follower.on_answer(follower.position, diverging(1, 2), 0)
    with pytest.raises(CommittedDataLossError):
        follower.on_leader_range(follower.position, 0, 2)
    assert epochs_of(follower) == [1, 1, 3]


def test_a_high_watermark_from_before_a_restart_does_not_hold_up_truncation():
    follower = following([1, 1, 3])
    follower.log.high_watermark = 3
    follower.on_answer(follower.position, answered(high_watermark=2), 0)
    assert follower.on_answer(follower.position, diverging(1, 2), 0) is Next.FETCH
    assert (epochs_of(follower), follower.log.high_watermark) == ([1, 1], 2)


def test_out_of_range_has_the_leader_asked_for_its_range_and_other_errors_back_off():
    follower = following([1])
    assert follower.on_answer(follower.position, FetchAnswer(ErrorCode.offset_out_of_range), 0) is Next.ASK_RANGE
    assert follower.on_answer(follower.position, FetchAnswer(ErrorCode.unknown_leader_epoch), 0) is Next.BACK_OFF


@pytest.mark.parametrize("start", [2, 7], ids=["that cannot be compared", "beyond the own end"])
def test_at_a_start_of_the_leader_it_drops_everything_and_begins_there(start):
    follower = following([1, 1])
    assert follower.on_leader_range(follower.position, start, 9) is Next.FETCH
    log = follower.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.batches) == (start, start, start, [])
    assert follower.position == FetchPosition(5, start, -1, start)


def beginning_at(offset: int):
    """An empty log that was told that the leader's begins at ``offset``."""
    follower = following([])
    follower.on_leader_range(follower.position, offset, offset + 9)
    return follower


@pytest.mark.parametrize("leaders_high_watermark", [12, 14, 20])
def test_an_empty_log_begins_with_the_batch_in_which_the_leaders_log_starts(leaders_high_watermark):
    follower = beginning_at(12)
    log = follower.log
    batches = [stamped(10, 3, records=5), stamped(15, 4)]
    answer = answered(*batches, high_watermark=leaders_high_watermark, log_start_offset=12)
    assert follower.must_begin_below(follower.position, answer)
    assert follower.on_answer(follower.position, answer, 0) is Next.FETCH
    assert [kept.data for kept in log.batches] == [bytes(batch) for batch in batches]
    offsets = log.log_start_offset, log.high_watermark, log.log_end_offset
    assert offsets == (12, min(leaders_high_watermark, 16), 16)
    assert log.leader_epochs.entries() == [(3, 10), (4, 15)]
    assert not follower.must_begin_below(follower.position, answer)


def test_where_the_next_leader_starts_earlier_neither_log_start_nor_high_watermark_falls():
    follower = beginning_at(12)
    answer = answered(stamped(10, 3, records=5), high_watermark=10, log_start_offset=0)
    assert follower.on_answer(follower.position, answer, 0) is Next.FETCH
    log = follower.log
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (12, 12, 15)


@pytest.mark.parametrize(
    "batch",
    [broken(stamped(10, 3, records=5)), stamped(10, 3, records=2), stamped(10, 6, records=5)],
    ids=["checksum", "wholly below the log", "later epoch than the leader's"],
)
def test_an_empty_log_does_not_begin_with_a_bad_batch(batch):
    follower = beginning_at(12)
    answer = answered(batch, high_watermark=20, log_start_offset=12)
    assert not follower.must_begin_below(follower.position, answer)
    assert follower.on_answer(follower.position, answer, 0) is Next.BACK_OFF
    assert follower.position == FetchPosition(5, 12, -1, 12)


def test_the_piece_of_a_batch_that_was_cut_off_is_not_begun_with():
    follower = beginning_at(12)
    answer = answered(bytes(stamped(10, 3, records=5))[:-1], high_watermark=20, log_start_offset=12)
    assert not follower.must_begin_below(follower.position, answer)
    assert follower.on_answer(follower.position, answer, 0) is Next.FETCH
    assert follower.position == FetchPosition(5, 12, -1, 12)


def test_a_log_that_holds_records_takes_no_batch_that_begins_within_it():
    follower = following([1])
    answer = answered(stamped(0, 1, records=3), high_watermark=3)
    assert not follower.must_begin_below(follower.position, answer)
    assert follower.on_answer(follower.position, answer, 0) is Next.BACK_OFF
    assert epochs_of(follower) == [1]


def test_beyond_the_leaders_end_it_truncates_to_it_and_within_its_range_it_asks_again():
    follower = following([1, 1, 1])
    assert follower.on_leader_range(follower.position, 0, 3) is Next.BACK_OFF
    assert follower.on_leader_range(follower.position, 0, 2) is Next.FETCH
    assert follower.log.log_end_offset == 2


def test_with_flush_messages_1_it_fetches_only_what_it_has_flushed():
    follower = following([1], flush_messages=1)
    assert follower.must_flush
    follower.log.flush()
    assert not follower.must_flush
    assert not following([1]).must_flush


def test_consumers_are_served_up_to_its_own_high_watermark_while_it_is_in_sync():
    follower = following([1, 1])
    follower.on_answer(follower.position, answered(high_watermark=1), 0)
    assert follower.check_consumer_fetch(5, 1, 1).high_watermark == 1
    with pytest.raises(
        ApiError
    ) as beyond:  # who is in sync has what consumers have read: it is not, and does not know it yet
        follower.check_consumer_fetch(-1, follower.log.log_end_offset + 1, -1)
    assert beyond.value.code is ErrorCode.not_leader_or_follower
    follower.update(state(leader=2, isr=(2,), partition_epoch=11))
    with pytest.raises(ApiError) as caught:
        follower.check_consumer_fetch(-1, 1, -1)
    assert caught.value.code is ErrorCode.not_leader_or_follower


def test_older_metadata_is_passed_over():
    follower = following([1])
    follower.update(state(leader=2, isr=(2,), partition_epoch=9))
    assert ME in follower.state.isr
