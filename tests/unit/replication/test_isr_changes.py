"""What a leader proposes for the ISR, and what becomes of it."""

import pytest

from esp.model.errors import ErrorCode
from esp.records.batch_header import read_header
from esp.replication.isr_changes import TRANSITIONS, ChangeKind, Event, IsrAnswer, Phase
from tests.unit.replication.logs import LAG_US, ME, B, C, Metadata, fetch, leading, stamped, state

OWN_EPOCH = 10


def propose(leader, now_us=0):
    return leader.next_isr_change(now_us, OWN_EPOCH)


def accepted(change, isr, *, partition_epoch=11, **fields) -> IsrAnswer:
    return IsrAnswer(ErrorCode.none, isr, ME, 5, partition_epoch, **fields)


def expanding(metadata=None, **settings):
    """A leader of the ISR (me, B) that C wants to join, and its proposal."""
    leader = leading([1, 1], state(isr=(ME, B)), metadata=metadata, **settings)
    fetch(leader, C, 2, last_epoch=1)
    return leader, propose(leader)


def shrinking():
    """A leader with two followers that lag, and its proposal."""
    leader = leading([1, 1])
    return leader, propose(leader, LAG_US + 1)


def test_a_follower_that_caught_up_is_proposed_with_the_broker_epoch_of_its_fetch():
    leader, change = expanding()
    assert change.kind is ChangeKind.EXPAND
    assert change.members == ((ME, OWN_EPOCH), (B, -1), (C, 30))
    assert (change.leader_epoch, change.partition_epoch, change.recovering) == (5, 10, False)
    assert propose(leader) is None, "ISR-1: one at a time"


@pytest.mark.parametrize(
    "reason", ["fenced", "other broker epoch", "below the high watermark", "below the epoch's start"]
)
def test_a_follower_does_not_join(reason):
    metadata = Metadata()
    leader = leading([1, 1, 1], state(isr=(ME, B)), metadata=metadata)
    offset = 3
    if reason == "fenced":
        del metadata.active[C]
    elif reason == "other broker epoch":
        metadata.active[C] = 31
    elif reason == "below the epoch's start":
        offset = 2
    else:
        leader.epoch_start_offset = 0
        leader.log.high_watermark = 3
        offset = 2
    fetch(leader, C, offset, last_epoch=1)
    assert not leader.can_join_isr(C, 0)
    assert propose(leader) is None


def test_a_broker_without_a_replica_does_not_join():
    assert not leading([1, 1, 1], state(isr=(ME, B))).can_join_isr(99, 0)


def test_a_follower_that_is_silent_and_behind_does_not_come_back_at_once_after_it_was_removed():
    leader, change = shrinking()
    leader.on_isr_answer(change, accepted(change, (ME,)), LAG_US + 1)
    leader.epoch_start_offset = 0
    fetch(leader, C, 1, last_epoch=1, now_us=LAG_US + 1)
    assert propose(leader, LAG_US + 2) is None


def test_a_follower_that_lags_is_removed_and_one_at_the_end_is_not_whatever_its_silence():
    leader = leading([1, 1])
    fetch(leader, B, 2, last_epoch=1, now_us=0)
    assert propose(leader, LAG_US) is None
    change = propose(leader, LAG_US + 1)
    assert change.kind is ChangeKind.SHRINK
    assert change.isr == (ME, B)


def test_a_follower_that_was_at_the_end_all_the_time_has_its_full_time_to_follow_the_next_record():
    leader = leading([1, 1])
    for node in (B, C):
        fetch(leader, node, 2, last_epoch=1, now_us=0)
    assert propose(leader, 3 * LAG_US) is None
    batch = stamped(2, 5)
    leader.log.append(batch, read_header(batch), 0)
    assert propose(leader, 4 * LAG_US) is None
    assert propose(leader, 4 * LAG_US + 1).kind is ChangeKind.SHRINK


def test_a_pending_expansion_counts_and_a_pending_shrink_does_not():
    leader, _ = expanding()
    assert leader.maximal_isr == {ME, B, C}
    assert leader.state.isr == (ME, B)
    leader, _ = shrinking()
    assert leader.maximal_isr == {ME, B, C}
    assert leader.log.high_watermark == 0


def test_a_committed_shrink_moves_the_high_watermark():
    leader, change = shrinking()
    assert leader.on_isr_answer(change, accepted(change, (ME,)), LAG_US + 1)
    assert leader.log.high_watermark == 2
    assert leader.maximal_isr == {ME}


def test_an_expansion_in_flight_does_not_count_for_the_minimum():
    leader = leading([1, 1], state(isr=(ME,)), min_insync_replicas=2)
    fetch(leader, B, 2, last_epoch=1)
    change = propose(leader)
    assert leader.log.high_watermark == 0
    assert not leader.has_enough_replicas()
    assert leader.on_isr_answer(change, accepted(change, (ME, B)), 0)
    assert leader.log.high_watermark == 2
    assert leader.has_enough_replicas()


@pytest.mark.parametrize("code", [ErrorCode.ineligible_replica, ErrorCode.operation_not_attempted])
def test_a_refused_expansion_counts_until_the_committed_isr_is_confirmed(code):
    leader, change = expanding()
    leader.on_isr_answer(change, IsrAnswer(code), 0)
    assert leader.maximal_isr == {ME, B, C}, "a copy of the request may still arrive"
    confirmation = propose(leader)
    assert confirmation.kind is ChangeKind.CONFIRM
    assert confirmation.isr == (ME, B)
    leader.on_isr_answer(confirmation, accepted(confirmation, (ME, B)), 0)
    assert leader.maximal_isr == {ME, B}


def test_a_refused_shrink_is_forgotten():
    leader, change = shrinking()
    leader.on_isr_answer(change, IsrAnswer(ErrorCode.ineligible_replica), 0)
    assert leader.maximal_isr == {ME, B, C}
    assert propose(leader, LAG_US + 1).kind is ChangeKind.SHRINK


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.new_leader_elected,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.invalid_update_version,
        ErrorCode.invalid_request,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    ],
)
def test_where_an_earlier_copy_may_have_been_applied_the_change_is_pending_until_newer_metadata_comes(code):
    leader, change = expanding()
    leader.on_isr_answer(change, IsrAnswer(code), 0)
    assert leader.maximal_isr == {ME, B, C}
    assert propose(leader) is None
    leader.update(state(isr=(ME, B)), 0)
    assert leader.maximal_isr == {ME, B, C}, "the same partition epoch tells nothing new"
    leader.update(state(isr=(ME, B), partition_epoch=11), 0)
    assert leader.maximal_isr == {ME, B}


@pytest.mark.parametrize(
    "code", [ErrorCode.request_timed_out, ErrorCode.not_controller, ErrorCode.unknown_server_error]
)
def test_what_settles_nothing_is_sent_again_as_it_was(code):
    leader, change = expanding()
    leader.on_isr_answer(change, IsrAnswer(code), 0)
    assert propose(leader) is change
    assert propose(leader) is None


def test_metadata_may_come_before_the_answer_and_clears_what_is_in_flight():
    leader, change = expanding()
    leader.update(state(isr=(ME, B, C), partition_epoch=11), 0)
    assert leader.state.isr == (ME, B, C)
    leader.on_isr_answer(change, accepted(change, (ME, B, C)), 0)
    assert leader.state.isr == (ME, B, C)
    assert propose(leader, LAG_US + 1) is not None, "nothing is in flight any more"


def test_a_success_without_a_new_partition_epoch_settles_the_change():
    leader, change = expanding()
    leader.on_isr_answer(change, accepted(change, (ME, B), partition_epoch=10), 0)
    assert leader.maximal_isr == {ME, B}


def test_a_late_answer_to_an_older_change_settles_nothing_of_the_next():
    leader, first = expanding()
    leader.update(state(isr=(ME, B), partition_epoch=11), 0)
    second = propose(leader)
    assert second.partition_epoch == 11
    for answer in (accepted(first, (ME, B, C)), IsrAnswer(ErrorCode.ineligible_replica)):
        leader.on_isr_answer(first, answer, 0)
        assert leader.maximal_isr == {ME, B, C}
        assert propose(leader) is None


def test_older_metadata_than_the_answer_is_passed_over():
    leader, change = expanding()
    leader.on_isr_answer(change, accepted(change, (ME, B, C), partition_epoch=12), 0)
    leader.update(state(isr=(ME, B), partition_epoch=11), 0)
    assert leader.state.isr == (ME, B, C)


def test_a_success_of_another_leader_epoch_leaves_the_fate_open():
    leader, change = expanding()
    answer = IsrAnswer(ErrorCode.none, (ME, B, C), ME, 6, 11)
    leader.on_isr_answer(change, answer, 0)
    assert leader.state.partition_epoch == 10
    assert propose(leader) is None


def test_a_recovering_leader_reports_that_it_recovered_before_anybody_joins():
    leader = leading([1, 1], state(isr=(ME,), recovering=True))
    fetch(leader, B, 2, last_epoch=1)
    change = propose(leader)
    assert (change.kind, change.isr, change.recovering) == (ChangeKind.RECOVERED, (ME,), False)
    leader.on_isr_answer(change, accepted(change, (ME,)), 0)
    assert not leader.state.recovering
    assert propose(leader).kind is ChangeKind.EXPAND


def test_every_phase_can_be_left_for_committed():
    for phase in Phase:
        assert TRANSITIONS[phase, Event.INSTALLED] is Phase.COMMITTED
