"""How a leader takes in its followers' fetches, and what is committed by them."""

import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.records.batch_header import read_header
from esp.replication.partition_leader import PartitionLeader
from tests.unit.replication.logs import LAG_US, ME, B, C, Metadata, fetch, filled, leading, stamped, state

STRANGER = NodeId(9)


def code_of(*arguments, **options) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        fetch(*arguments, **options)
    return caught.value.code


def test_leader_epochs_are_compared_before_the_sender_is_looked_at():
    leader = leading([1, 1])
    for sender in (B, STRANGER):
        assert code_of(leader, sender, 0, epoch=4, broker_epoch=1) is ErrorCode.fenced_leader_epoch
        assert code_of(leader, sender, 0, epoch=6, broker_epoch=1) is ErrorCode.unknown_leader_epoch


def test_a_node_that_is_no_replica_is_not_served_and_leaves_no_trace():
    leader = leading([1, 1])
    assert code_of(leader, STRANGER, 0, broker_epoch=1) is ErrorCode.unknown_leader_epoch
    assert leader.follower(STRANGER) is None


def test_below_the_log_start_is_out_of_range_even_where_epochs_diverge():
    leader = leading([1, 1, 3])
    leader.log.high_watermark = 3
    leader.log.raise_log_start(2)
    assert code_of(leader, B, 1, last_epoch=2) is ErrorCode.offset_out_of_range


@pytest.mark.parametrize("start", [2, 3], ids=["an epoch begins there", "an epoch spans it"])
def test_a_log_that_ends_at_the_log_start_is_compared_by_the_record_before_it(start):
    """Nothing else tells a follower's records from those that were committed and dropped here (LOG-4)."""
    leader = leading([1, 1, 3, 3], state(isr=(ME,)))
    leader.log.high_watermark = 4
    leader.log.raise_log_start(start)
    before = {2: 1, 3: 3}[start]
    assert fetch(leader, C, start, last_epoch=2).diverges
    assert leader.follower(C).log_end_offset == -1
    assert not fetch(leader, C, start, last_epoch=before).diverges
    assert not fetch(leader, C, start).diverges, "an empty log"


def beginning_anew(**fields):
    """The leader of a log that began, empty, at offset 2."""
    log = filled([])
    log.truncate_fully_and_start_at(2)
    batch = stamped(2, 4)
    log.append(batch, read_header(batch), 0)
    log.begin_epoch(5)
    partition = state(**{"isr": (ME,), **fields})
    return PartitionLeader(log, partition, ME, now_us=0, lag_time_max_us=LAG_US, is_eligible=Metadata().is_eligible)


def test_a_leader_that_does_not_know_the_record_before_its_start_lets_a_log_that_ends_there_begin_anew():
    leader = beginning_anew()
    assert code_of(leader, C, 2, last_epoch=1) is ErrorCode.offset_out_of_range
    assert not fetch(leader, C, 2).diverges, "it has begun anew"
    batch = stamped(3, 5)
    leader.log.append(batch, read_header(batch), 0)
    leader.log.high_watermark = 4
    leader.log.raise_log_start(3)
    assert not fetch(leader, C, 3, last_epoch=4).diverges, "the record before the start is known now"


@pytest.mark.parametrize("fields", [{"isr": (ME, C)}, {"elr": (C,)}], ids=["in sync", "eligible"])
def test_a_replica_that_has_all_that_is_committed_keeps_what_cannot_be_compared(fields):
    leader = beginning_anew(**fields)
    leader.update(state(isr=(ME,), partition_epoch=11), 0)
    assert not fetch(leader, C, 2, last_epoch=1).diverges, "it was complete in this epoch"


def test_a_diverging_fetch_is_answered_with_epoch_and_end_and_changes_nothing():
    leader = leading([1, 1, 3, 3])
    answer = fetch(leader, B, 4, last_epoch=2, now_us=7)
    assert (answer.diverging_epoch, answer.diverging_end_offset) == (1, 2)
    assert leader.follower(B).log_end_offset == -1
    fetch(leader, C, 4, last_epoch=3)
    assert leader.log.high_watermark == 0, "KAFKA-13141: the diverging follower does not count"


def test_a_log_end_beyond_the_leaders_in_its_epoch_diverges_and_without_an_epoch_is_out_of_range():
    leader = leading([1, 1])
    answer = fetch(leader, B, 3, last_epoch=1)
    assert (answer.diverging_epoch, answer.diverging_end_offset) == (1, 2)
    assert code_of(leader, B, 3, last_epoch=-1) is ErrorCode.offset_out_of_range


def test_a_fetch_of_an_older_incarnation_is_refused_after_one_of_a_newer():
    leader = leading([1, 1])
    fetch(leader, B, 1, last_epoch=1, broker_epoch=20)
    assert code_of(leader, B, 2, last_epoch=1, broker_epoch=19) is ErrorCode.not_leader_or_follower
    assert leader.follower(B).log_end_offset == 1


def test_a_new_incarnation_has_caught_up_with_nothing_yet():
    leader = leading([1, 1])
    fetch(leader, B, 2, last_epoch=1, now_us=LAG_US, broker_epoch=19)
    fetch(leader, B, 1, last_epoch=1, now_us=LAG_US + 1, broker_epoch=20)
    assert leader.follower(B).lags(LAG_US + 2, 2, LAG_US)


def test_the_high_watermark_is_the_least_log_end_of_the_isr_and_the_answer_tells_it():
    leader = leading([1, 1, 1])
    assert fetch(leader, B, 2, last_epoch=1).high_watermark == 0
    assert fetch(leader, C, 1, last_epoch=1).high_watermark == 1
    assert fetch(leader, C, 3, last_epoch=1) == (2, 2, 0, 3, -1, -1)
    assert fetch(leader, B, 1, last_epoch=1).high_watermark == 2, "HW-5: it does not fall"


def test_below_min_isr_nothing_is_committed_until_the_isr_is_large_enough():
    leader = leading([1, 1], state(isr=(ME,)), min_insync_replicas=2)
    fetch(leader, B, 2, last_epoch=1)
    assert leader.log.high_watermark == 0
    assert leader.update(state(isr=(ME, B), partition_epoch=11), 0)
    assert leader.log.high_watermark == 2


def test_a_smaller_min_isr_commits_at_once():
    leader = leading([1, 1], state(isr=(ME,)), min_insync_replicas=2)
    assert leader.log.high_watermark == 0
    leader.log.settings = type(leader.log.settings)(min_insync_replicas=1)
    assert leader.update(leader.state, 0)
    assert leader.log.high_watermark == 2


def test_a_follower_that_is_about_to_join_holds_the_high_watermark_back_while_it_is_eligible():
    metadata = Metadata()
    leader = leading([1, 1], state(isr=(ME, B)), metadata=metadata)
    fetch(leader, C, 1, last_epoch=1, now_us=5)
    assert fetch(leader, B, 2, last_epoch=1, now_us=6).high_watermark == 2, "never caught up: not waited for"
    leader = leading([1, 1], state(isr=(ME, B)), metadata=metadata)
    fetch(leader, C, 2, last_epoch=1, now_us=5)
    fetch(leader, C, 1, last_epoch=1, now_us=6)
    assert fetch(leader, B, 2, last_epoch=1, now_us=7).high_watermark == 1
    del metadata.active[C]
    assert leader.update(leader.state, 8)
    assert leader.log.high_watermark == 2


def test_with_flush_messages_1_the_leader_counts_its_flushed_end():
    leader = leading([1, 1], flush_messages=1)
    fetch(leader, B, 2, last_epoch=1)
    fetch(leader, C, 2, last_epoch=1)
    assert leader.log.high_watermark == 0
    leader.log.flush()
    assert leader.maybe_advance_high_watermark()
    assert leader.log.high_watermark == 2


def test_the_latest_offset_is_not_available_before_the_epochs_start_is_committed():
    leader = leading([1, 1])
    assert not leader.is_high_watermark_current
    fetch(leader, B, 2, last_epoch=1)
    fetch(leader, C, 2, last_epoch=1)
    assert leader.is_high_watermark_current


def test_caught_up_means_at_the_end_or_where_the_end_was_at_the_fetch_before():
    leader = leading([1, 1, 1])
    fetch(leader, B, 1, last_epoch=1, now_us=10)
    follower = leader.follower(B)
    before = follower.last_caught_up_us
    fetch(leader, B, 2, last_epoch=1, now_us=20)
    assert follower.last_caught_up_us == before
    fetch(leader, B, 3, last_epoch=1, now_us=30)
    assert follower.last_caught_up_us == 30


def test_a_leader_whose_epoch_the_log_does_not_know_is_not_made():
    with pytest.raises(AssertionError, match="LOG-8"):
        leading_without_epoch()


def leading_without_epoch():
    leader = leading([1, 1])
    log = leader.log
    log.leader_epochs.truncate_from_end(2)
    type(leader)(log, state(), ME, now_us=0, lag_time_max_us=LAG_US, is_eligible=Metadata().is_eligible)


def test_removed_replicas_are_forgotten_and_new_ones_begin_unknown():
    leader = leading([1, 1])
    fetch(leader, B, 2, last_epoch=1)
    leader.update(state(replicas=(ME, B, STRANGER), isr=(ME, B), partition_epoch=11), 0)
    assert leader.follower(C) is None
    assert leader.follower(STRANGER).log_end_offset == -1
    assert leader.follower(B).log_end_offset == 2


def test_consumers_are_checked_as_followers_are_but_need_not_know_epochs():
    leader = leading([1, 1, 3])
    assert leader.check_consumer_fetch(-1, 1, -1).high_watermark == 0
    assert leader.check_consumer_fetch(5, 3, 2).diverges
    with pytest.raises(ApiError) as caught:
        leader.check_consumer_fetch(4, 1, -1)
    assert caught.value.code is ErrorCode.fenced_leader_epoch
