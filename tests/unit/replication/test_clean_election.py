import pytest

from esp.model.ids import NodeId
from esp.replication.partition_follower import is_clean_step, is_still_firm
from esp.replication.partition_leader import must_flush_to_lead
from tests.unit.replication.logs import ME, B, C, filled, following, state

OLD = state(leader=ME, epoch=5, isr=(ME, B), partition_epoch=10)
EMPTY = state(leader=-1, epoch=5, isr=(), elr=(B,), last_known_elr=(C,), partition_epoch=10)


@pytest.mark.parametrize(
    ("old", "new", "clean"),
    [
        (OLD, state(leader=B, epoch=6, isr=(B,), partition_epoch=11), True),
        (OLD, state(leader=C, epoch=6, isr=(C,), partition_epoch=11, recovering=True), False),
        (OLD, state(leader=NodeId(0), epoch=6, isr=(NodeId(0),), partition_epoch=11, recovering=True), False),
        (OLD, state(leader=C, epoch=6, isr=(C,), replicas=(C,), partition_epoch=11), True),  # a reassignment has ended
        (OLD, state(leader=B, epoch=7, isr=(B,), partition_epoch=12), False),
        (OLD, state(leader=ME, epoch=5, isr=(ME,), partition_epoch=14), True),
        (OLD, state(leader=-1, epoch=6, isr=(), partition_epoch=11), True),
        (EMPTY, state(leader=B, epoch=6, isr=(B,), partition_epoch=11), True),
        (EMPTY, state(leader=C, epoch=6, isr=(C,), partition_epoch=11, recovering=True), True),
        (EMPTY, state(leader=ME, epoch=6, isr=(ME,), partition_epoch=11, recovering=True), False),
    ],
)
def test_only_a_step_that_is_seen_whole_and_elects_a_known_complete_replica_is_clean(old, new, clean):
    assert is_clean_step(old, new) is clean


NEXT = state(leader=B, epoch=6, isr=(B,), partition_epoch=11)


def firm(before=OLD, after=NEXT, *, was_leader=False, follower=None, kept=False):
    return is_still_firm(before, after, was_leader=was_leader, follower=follower, kept=kept)


def test_a_high_watermark_is_firm_after_a_clean_step_of_a_replica_that_knew_it():
    """TRUNC-8"""
    assert firm(was_leader=True)
    assert firm(follower=following([0], firm=True))
    assert not firm(follower=following([0], firm=False))
    assert firm(kept=True)
    assert not firm()


def test_it_is_not_after_a_start_or_a_step_that_is_not_clean():
    """TRUNC-8"""
    assert not firm(None, was_leader=True)
    assert not firm(after=state(leader=B, epoch=7, isr=(B,), partition_epoch=12), was_leader=True)


def test_what_followed_counts_and_not_what_was_said_before():
    assert not firm(follower=following([0], firm=False), kept=True)


def test_a_replica_whose_records_count_when_flushed_flushes_them_before_it_leads():
    """SYNC-4"""
    assert must_flush_to_lead(filled([0], flush_messages=1))
    assert not must_flush_to_lead(filled([0]))
    flushed = filled([0], flush_messages=1)
    flushed.flush()
    assert not must_flush_to_lead(flushed)
